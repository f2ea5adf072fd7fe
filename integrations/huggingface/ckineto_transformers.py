"""A callback for the Trainer of transformers that records some training steps, and writes a report at the end.

    trainer = transformers.Trainer(…, callbacks=[CkinetoCallback()])
"""
import os

import ckineto
from transformers import TrainerCallback


class CkinetoCallback(TrainerCallback):
    """Arguments are those of `ckineto.TrainingRecorder`. The directory is relative to `output_dir` of the training."""

    def __init__(self, directory="ckineto", *, skip=3, steps=20, report=True, **options):
        self._arguments = dict(skip=skip, steps=steps, report=report, **options)
        self._directory = directory
        self.recorder = None

    def on_train_begin(self, args, state, control, **kwargs):
        self.recorder = ckineto.TrainingRecorder(os.path.join(args.output_dir or ".", self._directory),
                                                 **self._arguments)

    def on_step_begin(self, args, state, control, **kwargs):
        self.recorder.begin_step()

    def on_train_end(self, args, state, control, **kwargs):
        self.recorder.finish()
        for line in self.recorder.summary():
            print(line, flush=True)
