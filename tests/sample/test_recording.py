"""The sample's benchmark table: the columns of Liger's, and its rule of which measurement stays."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "templates" / "sample" / "benchmark" / "scripts"


@pytest.fixture
def recording() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("sample_recording", SCRIPTS / "recording.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module


def row(recording: ModuleType, **fields: Any) -> dict[str, Any]:
    return dict.fromkeys(recording.COLUMNS, "") | {"kernel_name": "geglu", "x_value": 1024, "y_value_50": 1.0} | fields


def test_a_measurement_that_is_there_stays_unless_it_is_overwritten(recording: ModuleType) -> None:
    old, new = [row(recording, y_value_50=1.0)], [row(recording, y_value_50=2.0, timestamp="later")]
    assert recording.merge(old, new, overwrite=False) == old
    assert recording.merge(old, new, overwrite=True) == new


@pytest.mark.parametrize("field", ["kernel_provider", "kernel_operation_mode", "metric_name", "x_value", "gpu_name"])
def test_another_size_or_provider_or_gpu_is_another_measurement(recording: ModuleType, field: str) -> None:
    old, new = [row(recording)], [row(recording, **{field: "other"})]
    assert recording.merge(old, new, overwrite=True) == old + new


def test_a_table_read_back_knows_its_own_rows(recording: ModuleType, tmp_path: Path) -> None:
    """Everything in a file is text; a size that was a number must still be the same measurement."""
    path = tmp_path / "data" / "table.csv"
    assert recording.read(path) == []
    recording.write(path, [row(recording, extra_benchmark_config_str='{"eps": 1e-06, "dtype": "bfloat16"}')])
    again = row(recording, extra_benchmark_config_str='{"eps": 1e-06, "dtype": "bfloat16"}', y_value_50=3.0)
    (kept,) = recording.merge(recording.read(path), [again], overwrite=False)
    assert kept["y_value_50"] == "1.0"
    assert path.read_text().splitlines()[0] == (
        "kernel_name,kernel_provider,kernel_operation_mode,metric_name,metric_unit,x_name,x_label,x_value,"
        "y_value_50,y_value_20,y_value_80,extra_benchmark_config_str,gpu_name,timestamp,liger_version"
    )


@pytest.mark.slow
def test_without_a_gpu_a_benchmark_says_so_and_stops() -> None:
    done = subprocess.run(
        [sys.executable, "-B", SCRIPTS / "benchmark_rms_norm.py"],
        env={"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(SCRIPTS.parents[1] / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "needs a CUDA device" in done.stderr and "make test" in done.stderr
    assert "Traceback" not in done.stderr
