"""What importing costs, and that the public names are what they say, whatever is imported after them."""

import subprocess
import sys

import pytest

HEAVY = ("jax", "numpy", "IPython", "ipywidgets", "bqplot", "pandas", "matplotlib", "google.protobuf", "tqdm")


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_the_package_imports_nothing_heavy():
    loaded = python(f"import sys, jaxscale_magic; print(*[m for m in {HEAVY!r} if m in sys.modules])")
    assert loaded == []


def test_loading_the_extension_imports_nothing_that_draws():
    loaded = python(
        "import sys, jax\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_line_magic('load_ext', 'jaxscale_magic')\n"
        "print(*[m for m in ('ipywidgets', 'bqplot', 'pandas', 'matplotlib', 'google.protobuf') if m in sys.modules])"
    )
    assert loaded == []


@pytest.mark.parametrize("name", ["roofline", "chips", "chip", "load_chips", "analyze_hlo"])
def test_a_room_never_takes_a_functions_place(name):
    (answer,) = python(
        "import jaxscale_magic as jm, jaxscale_magic.analysis, jaxscale_magic.roofline, jaxscale_magic.chips.host\n"
        f"print(callable(jm.{name}))"
    )
    assert answer == "True"


def test_completion_offers_the_public_names_only():
    names = python("import jaxscale_magic as jm; print(*dir(jm))")
    assert names == [
        "Chip",
        "JaxscaleError",
        "__version__",
        "analyze_hlo",
        "chip",
        "chips",
        "load_chips",
        "load_ipython_extension",
        "roofline",
    ]
