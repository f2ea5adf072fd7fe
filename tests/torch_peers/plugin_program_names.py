"""Names that plugin_program.py and vendor_plugin.c use and test_plugins.py looks for."""

FORWARD = 'gemm<"bf16">\\tile \x01\t end \u03a9\u00e9'
BACKWARD = "sim_in_backward"
VENDOR = 'vendor "k" \\ \x02 \u4e2d'
NOTE = 'say "hi" to C:\\dir \u00e9'
DEVICE = 'Vendor "X" \\ 1'
ROW = 'queue "one"'


def make_plain(text: str) -> str:
    """The text as the guest hands it to libkineto, whose writer does not escape."""
    return "".join(" " if c < " " else c for c in text.replace('"', "'").replace("\\", "/"))


def make_plain_name(name: str) -> str:
    """The same of a name, which is ASCII then."""
    return "".join(c if c < "\x80" else "?" for c in make_plain(name))
