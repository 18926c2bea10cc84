"""Plain data and files: finite numbers, permissions, what is left behind when a write fails."""

import dataclasses
import json
import os
import sys
from xml.etree import ElementTree

import pytest
from sample_reports import full, report

from jaxscale_magic.errors import JaxscaleError


def test_a_dict_has_no_nan():
    measured = dataclasses.replace(full().measured, minimum=float("nan"))
    data = dataclasses.replace(full(), measured=measured).to_dict()
    assert data["measured"]["minimum"] is None
    assert data["share_of_bound"] is None
    json.dumps(data, allow_nan=False)


def test_pandas_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(JaxscaleError, match="pip install pandas"):
        full().to_pandas()


@pytest.mark.skipif(os.name == "nt", reason="no such permissions")
def test_a_saved_file_can_be_read_like_any_other(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.write_text("")
    saved = full().save(tmp_path / "report.html")
    assert saved.stat().st_mode == ordinary.stat().st_mode
    saved.chmod(0o640)
    assert full().save(saved).stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "report.txt"
    path.write_text("old")

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full_disk)
    with pytest.raises(JaxscaleError, match="No space left on device"):
        full().save(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.txt"]


def test_a_path_with_nul_is_one_sentence(tmp_path):
    with pytest.raises(JaxscaleError, match="cannot be written"):
        full().save(f"{tmp_path}/a\0.html")


@pytest.mark.parametrize("ending", [".html", ".json", ".md", ".txt", ".svg"])
def test_a_lone_surrogate_can_be_saved(tmp_path, ending):
    path = report(title="lone \ud800", notes=("\ud800",)).save(tmp_path / f"r{ending}")
    path.read_text(encoding="utf-8")


def test_a_saved_picture_has_a_ground_of_its_own_and_is_xml(tmp_path):
    svg = full().save(tmp_path / "r.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(svg)
    assert root.get("color") == "#222222"
    assert root[0].get("fill") == "#FFFFFF"


def test_where_there_is_no_picture_none_is_saved(tmp_path):
    with pytest.raises(JaxscaleError, match="no picture to save"):
        report(()).save(tmp_path / "r.svg")
    assert list(tmp_path.iterdir()) == []
