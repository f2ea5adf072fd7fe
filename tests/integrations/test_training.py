"""Callbacks for Lightning and transformers with the real packages: test_training.py PYTHON, which has them."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["CKINETO_SOURCE"])
PYTHON = sys.argv.pop() if len(sys.argv) > 1 else sys.executable

LIGHTNING = '''
import sys
import torch, lightning.pytorch as L
from ckineto_lightning import CkinetoCallback

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        if index == int(sys.argv[2]):
            raise RuntimeError("own error")
        return self.layer(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)

data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(int(sys.argv[1]), 8)), batch_size=1)
trainer = L.Trainer(max_epochs=1, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False, callbacks=[CkinetoCallback(skip=2, steps=4)])
trainer.fit(Model(), data)
'''

TRANSFORMERS = '''
import sys
import torch, transformers
from ckineto_transformers import CkinetoCallback

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def forward(self, x):
        return {"loss": self.layer(x).square().mean()}

data = [{"x": torch.randn(8)} for _ in range(int(sys.argv[1]))]
arguments = transformers.TrainingArguments(output_dir=".", num_train_epochs=1, per_device_train_batch_size=1,
                                           report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True)
transformers.Trainer(model=Model(), args=arguments, train_dataset=data,
                     callbacks=[CkinetoCallback(skip=2, steps=4)]).train()
'''


def has(package):
    return subprocess.run([PYTHON, "-c", f"import torch, {package}"], capture_output=True).returncode == 0


class Training(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="ckineto-training-"))
        self.addCleanup(shutil.rmtree, self.directory, True)

    def train(self, folder, text, *arguments):
        (self.directory / "train.py").write_text(text)
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", PYTHONDONTWRITEBYTECODE="1",
                           PYTHONPATH=f"{SOURCE}/integrations/{folder}:{SOURCE}/python")
        done = subprocess.run([PYTHON, "train.py", *arguments], cwd=self.directory, env=environment,
                              capture_output=True, text=True, timeout=280)
        return done.returncode, done.stdout + done.stderr

    def steps(self):
        program = ("import ckineto; t = ckineto.open('ckineto/rank0.json.gz'); "
                   "print(len(t.analyze()['steps']))")
        environment = dict(os.environ, PYTHONPATH=f"{SOURCE}/python")
        done = subprocess.run([PYTHON, "-c", program], cwd=self.directory, env=environment, capture_output=True,
                              text=True)
        return done.stdout.strip() or done.stderr

    def check_run(self, folder, text, *more):
        status, out = self.train(folder, text, "10", *more)
        self.assertEqual(status, 0, out)
        self.assertIn("ckineto: the trace is ", out)
        self.assertEqual(self.steps(), "4")
        page = (self.directory / "ckineto" / "rank0.html").read_text(encoding="utf-8")
        self.assertIn("<html", page)

    def check_short_run(self, folder, text, *more):
        status, out = self.train(folder, text, "2", *more)
        self.assertEqual(status, 0, out)
        self.assertIn("no step was recorded", out)

    @unittest.skipUnless(has("lightning.pytorch"), "lightning is not installed")
    def test_lightning(self):
        self.check_run("lightning", LIGHTNING, "-1")
        self.check_short_run("lightning", LIGHTNING, "-1")

    @unittest.skipUnless(has("lightning.pytorch"), "lightning is not installed")
    def test_a_training_that_fails_keeps_its_trace(self):
        status, out = self.train("lightning", LIGHTNING, "10", "5")
        self.assertNotEqual(status, 0)
        self.assertIn("own error", out)
        self.assertEqual(self.steps(), "4")

    @unittest.skipUnless(has("transformers, accelerate"), "transformers or accelerate is not installed")
    def test_transformers(self):
        self.check_run("huggingface", TRANSFORMERS)
        self.check_short_run("huggingface", TRANSFORMERS)


if __name__ == "__main__":
    if not (has("lightning.pytorch") or has("transformers, accelerate")):
        print("neither lightning nor transformers is installed: skipped")
        sys.exit(77)
    unittest.main(verbosity=2)
