"""A callback for Lightning that records some training steps, and writes a report at the end of training.

    trainer = lightning.pytorch.Trainer(callbacks=[CkinetoCallback()])
"""
import os

import ckineto

try:
    from lightning.pytorch import Callback
except ImportError:  # the package under its older name
    from pytorch_lightning import Callback


class CkinetoCallback(Callback):
    """Arguments are those of `ckineto.TrainingRecorder`. The directory is relative to the trainer's root."""

    def __init__(self, directory="ckineto", *, skip=3, steps=20, report=True, **options):
        self._arguments = dict(skip=skip, steps=steps, report=report, **options)
        self._directory = directory
        self.recorder = None

    def on_train_start(self, trainer, module):
        self.recorder = ckineto.TrainingRecorder(os.path.join(trainer.default_root_dir, self._directory),
                                                 **self._arguments)

    def on_train_batch_start(self, trainer, module, batch, batch_index):
        self.recorder.begin_step()

    def on_train_end(self, trainer, module):
        self.recorder.finish()
        for line in self.recorder.summary():
            print(line, flush=True)

    def on_exception(self, trainer, module, exception):
        if self.recorder:  # what was recorded up to here may say why
            self.recorder.finish()
