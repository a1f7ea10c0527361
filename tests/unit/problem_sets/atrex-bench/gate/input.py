import torch


def _make_inputs(rows, cols):
    return {
        "gate": torch.randn(rows, cols, device="cuda"),
        "up": torch.randn(rows, cols, device="cuda"),
    }
