"""What holds for every test: no compiler of another chip is used, unless a test is about that."""

import pytest

from jaxscale_magic.targets.aim import STAND_IN_VARIABLE


@pytest.fixture(autouse=True)
def stand_in(request, monkeypatch):
    """The CPU compiler stands in, so that figures are the same wherever the tests run."""
    if "real_compiler" not in request.keywords:
        monkeypatch.setenv(STAND_IN_VARIABLE, "1")
