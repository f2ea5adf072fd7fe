"""What docs/how-to/python.md and the notebook show runs, cell by cell, in one namespace."""
import ast
import importlib.util
import json
import os
import re

import support

DOCS = os.path.join(support.SOURCE, "docs")
NOTEBOOK = os.path.join(DOCS, "notebooks", "first-trace.ipynb")


def run_cell(source, namespace):
    """Run a cell as notebooks do: the value of a last expression is shown."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), namespace)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


class Documents(support.TestCase):
    def setUp(self):
        super().setUp()
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)

    def test_the_page_runs(self):
        with open(os.path.join(DOCS, "how-to", "python.md"), encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```", file.read(), flags=re.S | re.M)
        self.assertGreaterEqual(len(blocks), 3)
        namespace = {}
        for block in blocks:
            exec(compile(block, "docs/how-to/python.md", "exec"), namespace)
        for name in ("trace.json", "report.html", "trace.pftrace", "profile.json.gz"):
            self.assertTrue(os.path.exists(name), name)
        self.assertEqual(len(os.listdir("log")), 1)

    def test_members_that_the_page_names_are_there(self):
        import ckineto

        with open(os.path.join(DOCS, "how-to", "python.md"), encoding="utf-8") as file:
            text = file.read()
        for name in set(re.findall(r"\bckineto\.([a-zA-Z_]+)", text)) - {"md"}:
            self.assertTrue(hasattr(ckineto, name), name)
        for name in set(re.findall(r"\btrace\.([a-z_]+)\b(?!\.)", text)) - {"json", "pftrace", "ipynb"}:
            self.assertTrue(hasattr(ckineto.Trace, name), name)

    def test_the_notebook_runs(self):
        with open(NOTEBOOK, encoding="utf-8") as file:
            notebook = json.load(file)
        self.assertEqual(notebook["nbformat"], 4)
        shown, namespace = [], {}
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None))
                shown.append(run_cell("".join(cell["source"]), namespace))
        self.assertTrue(any(text and "<svg" in text for text in shown))
        self.assertTrue(os.path.exists("first-trace.html"))

    def test_the_notebook_runs_in_a_kernel(self):
        missing = [n for n in ("nbclient", "nbformat", "ipykernel") if importlib.util.find_spec(n) is None]
        if missing:
            self.skipTest("not installed: %s" % ", ".join(missing))
        import nbclient
        import nbformat

        notebook = nbformat.read(NOTEBOOK, as_version=4)
        nbformat.validate(notebook)
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
        outputs = [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]
        self.assertFalse([o for o in outputs if o.output_type == "error"])
        self.assertTrue(any("<svg" in o.get("data", {}).get("text/html", "") for o in outputs))


if __name__ == "__main__":
    support.main()
