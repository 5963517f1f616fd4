"""What the benchmark scripts share: timing, and rows in the table that Liger's own tools read."""

import argparse
import csv
import json
import sys
from datetime import datetime
from pathlib import Path

DATA_FILE = Path(__file__).resolve().parents[1] / "data" / "all_benchmark_data.csv"

# The last name is Liger's too: a reader of its tables looks for it.
COLUMNS = [
    "kernel_name",
    "kernel_provider",
    "kernel_operation_mode",
    "metric_name",
    "metric_unit",
    "x_name",
    "x_label",
    "x_value",
    "y_value_50",
    "y_value_20",
    "y_value_80",
    "extra_benchmark_config_str",
    "gpu_name",
    "timestamp",
    "liger_version",
]

# Two rows that agree in these are the same measurement.
KEY = [
    "kernel_name",
    "kernel_provider",
    "kernel_operation_mode",
    "metric_name",
    "x_name",
    "x_value",
    "extra_benchmark_config_str",
    "gpu_name",
]

QUANTILES = [0.5, 0.2, 0.8]


def gpu_name():
    import torch

    if not torch.cuda.is_available():
        sys.exit("A benchmark needs a CUDA device and none was found. The tests run without one: make test")
    return torch.cuda.get_device_name(0)


def operations(forward, inputs):
    """The three modes of an operator: `forward()` returns its output, `inputs` are the tensors that get gradients."""
    import torch

    output = forward()
    gradient = torch.randn_like(output)

    def backward():
        output.backward(gradient, retain_graph=True)

    def full():
        forward().backward(gradient)

    def drop_gradients():
        for tensor in inputs:
            tensor.grad = None

    return {"forward": forward, "backward": backward, "full": full}, drop_gradients


def speed(operation, inputs):
    """Milliseconds: median, 20th and 80th percentile."""
    import triton

    return triton.testing.do_bench(operation, rep=100, grad_to_none=inputs, quantiles=QUANTILES)


def memory(operation, drop_gradients):
    """Peak megabytes of ten runs: median, 20th and 80th percentile."""
    import torch

    peaks = []
    for _ in range(10):
        drop_gradients()
        torch.cuda.reset_peak_memory_stats()
        operation()
        torch.cuda.synchronize()
        peaks.append(torch.cuda.max_memory_allocated() / 2**20)
    return torch.quantile(torch.tensor(peaks), torch.tensor(QUANTILES)).tolist()


def measure(kernel, providers, x_name, x_label, x_values, config):
    """One row for every provider, size, mode and metric. `providers[name](x)` makes (forward, inputs)."""
    from sample_kernels import __version__

    fixed = {
        "kernel_name": kernel,
        "x_name": x_name,
        "x_label": x_label,
        "extra_benchmark_config_str": json.dumps(config),
        "gpu_name": gpu_name(),
        "liger_version": __version__,
    }
    rows = []
    for x in x_values:
        for provider, make in providers.items():
            forward, inputs = make(x)
            modes, drop_gradients = operations(forward, inputs)
            results = [("speed", "ms", mode, speed(operation, inputs)) for mode, operation in modes.items()]
            results.append(("memory", "MB", "full", memory(modes["full"], drop_gradients)))
            for metric, unit, mode, (y50, y20, y80) in results:
                row = fixed | {"kernel_provider": provider, "kernel_operation_mode": mode, "x_value": x}
                row |= {"metric_name": metric, "metric_unit": unit, "y_value_50": y50, "y_value_20": y20}
                row |= {"y_value_80": y80, "timestamp": datetime.now().strftime("%Y-%m-%d %H:%M:%S")}
                rows.append(row)
    return rows


def key(row):
    return tuple(str(row[name]) for name in KEY)


def merge(old, new, overwrite):
    """A measurement that is already in the table stays as it is unless it is to be overwritten."""
    table = {key(row): row for row in old}
    for row in new:
        if overwrite or key(row) not in table:
            table[key(row)] = row
    return list(table.values())


def read(path):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def record(kernel, providers, *, x_name, x_label, x_values, config):
    """Run a benchmark script: measure, print the rows, keep them."""
    parser = argparse.ArgumentParser(description=f"Benchmark {kernel} on this GPU.")
    parser.add_argument("--overwrite", action="store_true", help="replace measurements that are already in the table")
    arguments = parser.parse_args()

    rows = measure(kernel, providers, x_name, x_label, x_values, config)
    writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write(DATA_FILE, merge(read(DATA_FILE), rows, arguments.overwrite))
    print(f"{len(rows)} rows, table: {DATA_FILE.relative_to(DATA_FILE.parents[2])}", file=sys.stderr)
