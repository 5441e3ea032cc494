"""A training loop of one of nine kinds, which prints its steps: what measure_pairs.py measures.

    python benchmarks/pair_kinds.py cnn 64

Models are small, their data are drawn once, weights are not kept. A step is a forward pass, a
backward pass and an optimizer's step. The first line has the memory that the loop takes.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from itertools import cycle

import _harness
import numpy as np
import torch
from torch import nn

Step = Callable[[], object]
_LINE_S = 0.02  # between lines; a synchronisation each
_WARM_UP_STEPS = 5


def _sequential(blocks: Iterable[nn.Module]) -> nn.Sequential:
    return nn.Sequential(*blocks)


class _Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = _sequential(
            [
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
            ]
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


def _convolutions(width: int, stages: int) -> nn.Sequential:
    blocks: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1)]
    for _ in range(stages):
        blocks += [_Residual(width), nn.Conv2d(width, 2 * width, 2, stride=2)]
        width *= 2
    return _sequential([*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 100)])


def _supervised(net: nn.Module, inputs: torch.Tensor, wanted: torch.Tensor, is_half: bool) -> Step:
    net = net.to(inputs.device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step() -> None:
        with torch.autocast(inputs.device.type, torch.bfloat16, enabled=is_half):
            loss = nn.functional.cross_entropy(net(inputs).float(), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def cnn(batch: int, device: str) -> Step:
    """Residual convolutions on images of 64 x 64, bfloat16."""
    images = torch.randn(batch, 3, 64, 64, device=device)
    return _supervised(_convolutions(64, 3), images, _labels(batch, device), True)


def transformer(batch: int, device: str) -> Step:
    """Return a transformer of four layers, width 512, 256 tokens, bfloat16."""
    words, length, width = 8192, 256, 512
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True)
    net = _sequential(
        [nn.Embedding(words, width), nn.TransformerEncoder(layer, 4), nn.Linear(width, words)]
    ).to(device)
    text = torch.randint(words, (batch, length), device=device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)

    def step() -> None:
        with torch.autocast(device, torch.bfloat16):
            loss = nn.functional.cross_entropy(net(text).float().flatten(0, 1), text.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def lstm(batch: int, device: str) -> Step:
    """Two layers of LSTM, width 512, 64 steps of time, float32."""
    net = nn.LSTM(256, 512, num_layers=2, batch_first=True).to(device)
    series = torch.randn(batch, 64, 256, device=device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)

    def step() -> None:
        loss = net(series)[0].square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def recommender(batch: int, device: str) -> Step:
    """Embeddings of two million rows, 26 lookups a row, and a small net, float32."""
    rows, fields, width = 2_000_000, 26, 64
    table = nn.Embedding(rows, width, sparse=True, device=device)
    net = _sequential([nn.Linear(fields * width, 512), nn.ReLU(), nn.Linear(512, 1)]).to(device)
    ids = torch.randint(rows, (batch, fields), device=device)
    sparse = torch.optim.SGD(table.parameters(), lr=1e-2)
    dense = torch.optim.Adam(net.parameters(), lr=1e-4)

    def step() -> None:
        loss = net(table(ids).flatten(1)).square().mean()
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()

    return step


def graph(batch: int, device: str) -> Step:
    """Two rounds of messages over random edges between 100,000 nodes, float32."""
    nodes, width = 100_000, 64
    sources, ends = torch.randint(nodes, (2, batch), device=device)
    features = torch.randn(nodes, width, device=device)
    layers = [nn.Linear(width, width).to(device) for _ in range(2)]
    optimizer = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr=1e-3)

    def step() -> None:
        x = features
        for layer in layers:
            x = torch.relu(layer(torch.zeros_like(x).index_add(0, ends, x[sources])))
        optimizer.zero_grad()
        x.square().mean().backward()
        optimizer.step()

    return step


def elementwise(batch: int, device: str) -> Step:
    """Adam on `batch` parameters with a cheap loss: memory traffic and little else."""
    values = nn.Parameter(torch.randn(batch, device=device))
    optimizer = torch.optim.Adam([values], lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        torch.tanh(values).mul(values).sum().backward()
        optimizer.step()

    return step


def products(batch: int, device: str) -> Step:
    """Large matrix products: layers of width 4,096, bfloat16."""
    width = 4096
    layers = [nn.Linear(width, width) for _ in range(3)]
    inputs = torch.randn(batch, width, device=device)
    return _supervised(_sequential(layers), inputs, _labels(batch, device), True)


def policy(batch: int, device: str) -> Step:
    """Return a small net that is asked for actions by an environment on the CPU, as in A3C."""
    net = _sequential([nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh()])
    net = net.append(nn.Linear(256, 8)).to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    rng = np.random.default_rng(0)
    state = rng.standard_normal((batch, 64)).astype(np.float32)
    turn = rng.standard_normal((64, 64)).astype(np.float32) / 8

    def step() -> None:
        nonlocal state
        for _ in range(4):
            with torch.no_grad():
                actions = net(torch.from_numpy(state).to(device)).argmax(dim=1).cpu().numpy()
            state = np.tanh(state @ turn + actions[:, None] / 8).astype(np.float32)
        loss = net(torch.from_numpy(state).to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def pictures(batch: int, device: str) -> Step:
    """Convolutions on images that come from the host each step: PCIe."""
    images = torch.randint(256, (4, batch, 3, 128, 128), dtype=torch.uint8)
    if device != "cpu":
        images = images.pin_memory()
    net = _convolutions(16, 2).to(device)
    wanted = _labels(batch, device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    turns = cycle(range(len(images)))

    def step() -> None:
        batch_of_images = images[next(turns)].to(device, non_blocking=True).float() / 255
        with torch.autocast(device, torch.bfloat16):
            loss = nn.functional.cross_entropy(net(batch_of_images).float(), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


KINDS: dict[str, Callable[[int, str], Step]] = {
    each.__name__: each
    for each in (
        cnn,
        transformer,
        lstm,
        recommender,
        graph,
        elementwise,
        products,
        policy,
        pictures,
    )
}


def _labels(batch: int, device: str) -> torch.Tensor:
    return torch.randint(100, (batch,), device=device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument(
        "batch", type=_harness.whole, help="of graph the edges, of elementwise the parameters"
    )
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    step, is_gpu = KINDS[options.kind](options.batch, options.device), options.device != "cpu"
    _repeat(step, _WARM_UP_STEPS, is_gpu)
    if is_gpu:
        print(f"memory {torch.cuda.max_memory_reserved()}", flush=True)
    done, a_line = 0, 1
    while True:
        began_s = time.monotonic()
        _repeat(step, a_line, is_gpu)
        took_s = time.monotonic() - began_s
        done += a_line
        print(f"step {done}", flush=True)
        if took_s < _LINE_S / 2:
            a_line *= 2
        elif took_s > 2 * _LINE_S:
            a_line = max(1, a_line // 2)


def _repeat(step: Step, count: int, is_gpu: bool) -> None:
    for _ in range(count):
        step()
    if is_gpu:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
