import torch


def bucket(x, shift):
    return (x // 3 + (x % 7)) ^ shift, (x > 5).sum(dim=1)


def get_inputs():
    return [torch.randint(-100, 100, (16, 30)), torch.randint(0, 8, (16, 30))]
