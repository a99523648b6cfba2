"""The same model in PyTorch: structured LatentTrack at the sizes of `lt-structured` with 13 inputs.

Run by the other benchmarks with the interpreter of an environment that has PyTorch (see README.md). It reads
one JSON request a line and answers each with one JSON line, so that its repetitions can alternate with ours
in one run:

    {"task": "vectorised" | "loop" | "filter", "threads": 1, "repeats": 20}   ->  {"seconds": per step}
    {"task": "check", "path": "weights.npz"}                                  ->  losses and scores
    {"task": "load", "path": "preset.npz"}                                    ->  there is a task "preset"
    {"task": "check preset", "path": "preset.npz"}                            ->  scores and reports

`vectorised` trains with `nn.GRU` over the window and everything else batched over its steps; `loop` trains as
the paper's algorithm is written, one step after another in Python; `filter` is the online filter in eager
mode; `preset` is the same for all that surrounds the network in `latent-track` (torch_preset.py).
"""

import json
import math
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from stream import FEATURES, random_walk
from torch import Tensor, nn
from torch_preset import Preset

HIDDEN, LATENT, ENCODER, BASIS, PREDICTOR = 64, 8, 16, 16, 8
WINDOW, RECENCY, WARMUP, K = 256, 0.9, 575, 100
SHAPES = ((PREDICTOR, FEATURES), (PREDICTOR,), (2, PREDICTOR), (2,))  # the generated weights and biases


class Model(nn.Module):
    """Encoder, summariser, posterior, transition and hypernetwork; all methods take rows of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(FEATURES + 1, ENCODER), nn.Tanh(), nn.Linear(ENCODER, ENCODER), nn.Tanh()
        )
        self.gru = nn.GRU(ENCODER, HIDDEN)
        self.posterior = nn.Linear(HIDDEN, 2 * LATENT)
        self.transition = nn.Linear(HIDDEN + LATENT, 2 * LATENT)
        self.basis = nn.Linear(LATENT, BASIS)
        self.weights = nn.Linear(BASIS, sum(math.prod(shape) for shape in SHAPES))

    def turn(self, h: Tensor, e: Tensor) -> Tensor:
        """One step of the GRU, [1, HIDDEN]."""
        gru = self.gru
        return torch.gru_cell(e, h, gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0)

    def predictor(self, x: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        """Generate one network for each latent and run it: mean and log-sd of y."""
        theta = self.weights(torch.tanh(self.basis(z)))
        w1, b1, w2, b2 = (
            part.unflatten(1, shape)
            for part, shape in zip(theta.split([math.prod(s) for s in SHAPES], dim=1), SHAPES, strict=True)
        )
        hidden = torch.tanh((w1 @ x.unsqueeze(-1)).squeeze(-1) + b1)
        mean, log_variance = ((w2 @ hidden.unsqueeze(-1)).squeeze(-1) + b2).unbind(1)
        return mean, (0.5 * log_variance).clamp(-8.0, 8.0)

    def terms(self, before: Tensor, after: Tensor, x: Tensor, y: Tensor, eps: Tensor, beta: float) -> Tensor:
        """The structured ELBO of each row: summaries before and after its label, K = 1."""
        previous_mean, previous_log_sd = gaussian(self.posterior(before))
        mean, log_sd = gaussian(self.posterior(after))
        previous = previous_mean + previous_log_sd.exp() * eps[:, :LATENT]
        prior_mean, prior_log_sd = gaussian(self.transition(torch.cat([before, previous], 1)))
        ratio = (2.0 * (log_sd - prior_log_sd)).exp()
        shift = ((mean - prior_mean) * (-prior_log_sd).exp()) ** 2
        kl = (prior_log_sd - log_sd + 0.5 * (ratio + shift - 1.0)).sum(1)
        loc, log_scale = self.predictor(x, mean + log_sd.exp() * eps[:, LATENT:])
        return log_normal(y, loc, log_scale) - beta * kl


def gaussian(raw: Tensor) -> tuple[Tensor, Tensor]:
    mean, log_sd = raw.chunk(2, dim=1)
    return mean, log_sd.clamp(-7.0, 4.0)


def log_normal(y: Tensor, loc: Tensor, log_scale: Tensor) -> Tensor:
    return -0.5 * ((y - loc) * (-log_scale).exp()) ** 2 - log_scale - 0.5 * math.log(2 * math.pi)


def vectorised_loss(
    model: Model, h: Tensor, x: Tensor, y: Tensor, eps: Tensor, beta: float
) -> tuple[Tensor, Tensor]:
    """A window at once: x [W, F], y [W], eps [W, 2 LATENT], h [1, HIDDEN]."""
    e = model.encoder(torch.cat([x, y[:, None]], 1))
    after, _ = model.gru(e, h)
    before = torch.cat([h, after[:-1]])
    values = model.terms(before, after, x, y, eps, beta)
    weights = RECENCY ** torch.arange(len(y) - 1, -1, -1, dtype=torch.float32)
    return -(weights * values).sum() / weights.sum(), after[-1:].detach()


def loop_loss(
    model: Model, h: Tensor, x: Tensor, y: Tensor, eps: Tensor, beta: float
) -> tuple[Tensor, Tensor]:
    """The same, one step after another."""
    total, weight_sum = torch.zeros(()), 0.0
    for t in range(len(y)):
        row = slice(t, t + 1)
        after = model.turn(h, model.encoder(torch.cat([x[row], y[row, None]], 1)))
        weight = RECENCY ** (len(y) - 1 - t)
        total = total + weight * model.terms(h, after, x[row], y[row], eps[row], beta).sum()
        weight_sum += weight
        h = after
    return -total / weight_sum, h.detach()


class Trainer:
    """Chunked truncated backpropagation: one Adam step a window, the summary detached between windows."""

    def __init__(self, loss: Callable[..., tuple[Tensor, Tensor]], x: Tensor, y: Tensor):
        self.loss, self.x, self.y = loss, x, y
        self.model = Model()
        self.adam = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True)
        self.h, self.updates = torch.zeros(1, HIDDEN), 0

    def __call__(self, windows: int) -> int:
        """Train on so many windows, round and round the stream; the number of steps taken."""
        for _ in range(windows):
            begin = self.updates * WINDOW % (len(self.y) - WINDOW)
            row = slice(begin, begin + WINDOW)
            eps = torch.randn(WINDOW, 2 * LATENT)
            beta = min(self.updates / WARMUP, 1.0)
            loss, self.h = self.loss(self.model, self.h, self.x[row], self.y[row], eps, beta)
            self.adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.adam.step()
            self.updates += 1
        return windows * WINDOW


class Filter:
    """One stream, one step at a time, K = 100 generated predictors."""

    def __init__(self, model: Model, x: Tensor, y: Tensor, eps: Tensor | None = None):
        self.model, self.x, self.y, self.eps = model, x, y, eps
        self.h, self.t = torch.zeros(1, HIDDEN), 0
        self.log_prob = 0.0

    @torch.inference_mode()
    def __call__(self, steps: int) -> int:
        """Predict, score, update for so many steps; the number of steps taken."""
        for _ in range(steps):
            self.step(self.x[self.t % len(self.y)], self.y[self.t % len(self.y)])
        return steps

    def step(self, x: Tensor, y: Tensor) -> None:
        """Mixture mean and variances, the label's log-probability, then fold the pair in."""
        model = self.model
        eps = torch.randn(K, 2 * LATENT) if self.eps is None else self.eps
        mean, log_sd = gaussian(model.posterior(self.h))
        previous = mean + log_sd.exp() * eps[:, :LATENT]
        mean, log_sd = gaussian(model.transition(torch.cat([self.h.expand(K, -1), previous], 1)))
        loc, log_scale = model.predictor(x, mean + log_sd.exp() * eps[:, LATENT:])
        self.mean = loc.mean().item()
        self.aleatoric = (2.0 * log_scale).exp().mean().item()
        self.epistemic = loc.var(correction=0).item()
        self.log_prob = torch.logsumexp(log_normal(y, loc, log_scale), 0).item() - math.log(K)
        self.h = model.turn(self.h, model.encoder(torch.cat([x, y[None]])[None]))
        self.t += 1


def check(path: str) -> dict[str, float | list[float]]:
    """The losses and the filter's scores with given weights and draws."""
    given = {name: torch.from_numpy(array) for name, array in np.load(path).items()}
    x, y, eps, points = (given.pop(name) for name in ("x", "y", "eps", "points"))
    model = Model()
    model.load_state_dict(given)
    answer: dict[str, float | list[float]] = {}
    for name, loss_fn in (("vectorised", vectorised_loss), ("loop", loop_loss)):
        model.zero_grad()
        loss, _ = loss_fn(model, torch.zeros(1, HIDDEN), x, y, eps, 1.0)
        loss.backward()
        model.gru.bias_hh_l0.grad[: 2 * HIDDEN] = 0.0  # a second bias beside bias_ih: our GRU has one
        answer[name] = [loss.item(), nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()]
    run, scores = Filter(model, x, y, points), []
    for _ in range(len(y)):
        run(1)
        scores.append(run.log_prob)
    return {**answer, "filter": scores}


def load_preset(path: str) -> Preset:
    given = dict(np.load(path))
    return Preset(given, given.pop("x"), given.pop("y"))


def check_preset(path: str) -> dict[str, list[list[float]]]:
    """What the whole preset says of every step, and how it is scored."""
    run, reports, scores = load_preset(path), [], []
    for _ in range(len(run.labels)):
        run(1)
        reports.append(run.report)
        scores.append(list(run.score))
    return {"reports": reports, "scores": scores}


def main() -> None:
    torch.manual_seed(0)
    x, y = (torch.from_numpy(a) for a in random_walk(16384))
    tasks: dict[str, Callable[[int], int]] = {
        "vectorised": Trainer(vectorised_loss, x, y),
        "loop": Trainer(loop_loss, x, y),
        "filter": Filter(Model(), x, y),
    }
    answer: dict = {"threads": torch.get_num_threads(), "version": torch.__version__}
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if request["task"] == "check":
            answer = check(request["path"])
        elif request["task"] == "check preset":
            answer = check_preset(request["path"])
        elif request["task"] == "load":
            tasks["preset"], answer = load_preset(request["path"]), {}
        else:
            torch.set_num_threads(request["threads"])
            start = time.perf_counter()
            steps = tasks[request["task"]](request["repeats"])
            answer = {"seconds": (time.perf_counter() - start) / steps}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
