"""What the tab key offers behind the magics, by the words before it and in a real shell."""

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

from jaxscale_magic.completion import completions

OPTIONS = {"--on": True, "--batch": True, "-q": False, "-n": True, "--no-measure": False}


class Array:
    shape = (3,)


@pytest.mark.parametrize(
    ("text", "offered"),
    [
        ("%roofline --o", ["--on"]),
        ("%%roofline --", ["--batch", "--no-measure", "--on"]),
        ("%%roofline --on v5", ["v5e", "v5p"]),
        ("%%roofline --on zz", []),
        ("%%roofline --on v5e -", ["--batch", "--no-measure", "-n", "-q"]),
        ("%%roofline --batch we", ["weights"]),
        ("%roofline -n 3 -", ["--batch", "--no-measure", "--on", "-q"]),
        ("%roofline -q f(x) -", []),  # code has begun
        ("%roofline f", []),
    ],
)
def test_what_is_offered(text, offered):
    assert completions(text, OPTIONS, {"weights": Array(), "wet": 3}) == offered


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "jaxscale_magic")
    return shell


@pytest.mark.parametrize(
    ("line", "offered"), [("%roofline --on h1", "h100"), ("%%roofline --no-a", "--no-advice"), ("%roofline -", "-v")]
)
def test_the_shell_offers_it(shell, line, offered):
    with provisionalcompleter():
        assert offered in [found.text for found in shell.Completer.completions(line, len(line))]
