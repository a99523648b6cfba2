"""The whole preset of `latent-track` in eager PyTorch, label delay 1: what a live event costs there.

Network, correction, anchor, informant, safety net and recalibration, as `models/` has them, one event after
another on features that are there: no reading of events, no making of features, no log, no gate. Written as a
good engineer would: everything is batched over the components of the mixture, small numbers stay on the
Python side where that is faster, and the quantiles start from the densities that the moments need anyway and
take two Newton steps each. Run by torch_peer.py; live.py compares its scores with ours.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

CANDIDATES = [(df, ratio) for ratio in (0.7, 0.85, 1.0, 1.2, 1.45) for df in (3.0, 4.0, 6.0, 10.0, 30.0)]
DF = torch.tensor([df for df, _ in CANDIDATES])
UNIT = torch.tensor([ratio * math.sqrt((df - 2.0) / df) for df, ratio in CANDIDATES])
LEVELS = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95])
BINS, PRIOR, HALF_LIFE, SHARE, POWER = 20, 1000.0, 1000.0, 0.001, 0.3
EDGES = torch.special.ndtri(torch.arange(1, BINS, dtype=torch.float64) / BINS).float()
TRIANGLE = torch.tril(torch.ones(BINS, BINS))


def _nodes(cells: int = 48, reach: float = 40.0, bend: float = 6.0) -> tuple[Tensor, Tensor]:
    """Where the densities are taken, and their distances, in standard deviations."""
    t = np.linspace(-1.0 - 2.0 / cells, 1.0 + 2.0 / cells, cells + 3)
    place = reach / np.sinh(bend) * np.sinh(bend * t)
    slope = reach / np.sinh(bend) * np.cosh(bend * t) * bend * 2.0 / cells
    return torch.from_numpy(place).float(), torch.from_numpy(slope).float()


PLACE, SLOPE = _nodes()


def log_height(df: Tensor) -> Tensor:
    return torch.lgamma(0.5 * (df + 1.0)) - torch.lgamma(0.5 * df) - 0.5 * torch.log(math.pi * df)


class Mixture:
    """Student-t components with their weights, and all that is asked of them."""

    def __init__(self, loc: Tensor, scale: Tensor, df: Tensor, height: Tensor, log_weights: Tensor):
        self.loc, self.scale, self.df, self.height = loc, scale, df, height  # height: of scale 1, a logarithm
        self.log_weights, self.weights = log_weights, log_weights.exp()

    def log_probs(self, y: float | Tensor) -> Tensor:
        """Of each component; y [N, 1] gives [N, components]."""
        u = (y - self.loc) / self.scale
        return self.height - self.scale.log() - 0.5 * (self.df + 1.0) * torch.log1p(u * u / self.df)

    def densities(self, y: Tensor) -> Tensor:
        """[N] at N points."""
        return self.log_probs(y[:, None]).exp() @ self.weights

    def measure(self, y: float | Tensor) -> tuple[Tensor, Tensor]:
        """P(Y <= y) and density: Hill's expansion after two steps of the recursion in df, as in models/."""
        u, df = (y - self.loc) / self.scale, self.df
        square = u * u / df
        rise = torch.log1p(square)
        density = (self.height - 0.5 * (df + 1.0) * rise).exp()
        twice = 1.0 + (df + 1.0) / ((df + 2.0) * (1.0 + square))
        a = df + 3.5
        b = 48.0 * a * a
        gain = (a / df * rise / square.clamp_min(1e-12)).sqrt()
        w = a * rise
        second = (((4.0 * w + 33.0) * w + 240.0) * w + 855.0) / (10.0 * b * (b + 0.8 * w * w + 100.0))
        z = u * gain * (1.0 + (w + 3.0) / b - second)
        below = 0.5 + 0.5 * torch.erf(math.sqrt(0.5) * z) - u * density / df * twice
        return below @ self.weights, (density / self.scale) @ self.weights


class Noise:
    """Residuals of a reference: a grid of Student-t, weighed by how well each did."""

    def __init__(self) -> None:
        self.variance, self.score = 1.0, torch.zeros(len(CANDIDATES))

    def scale(self) -> Tensor:
        """Of each candidate."""
        return UNIT * math.sqrt(self.variance + 1e-10)

    def update(self, residual: float, height: Tensor) -> None:
        """Learn from one residual."""
        scale = self.scale()
        u = residual / scale
        found = height - scale.log() - 0.5 * (DF + 1.0) * torch.log1p(u * u / DF)
        self.score = 0.999 * self.score + found
        self.variance += 0.02 * (residual**2 - self.variance)


class LeastSquares:
    """Recursive, in square-root form."""

    def __init__(self, size: int, forgetting: float = 0.98):
        self.w, self.root, self.forgetting = torch.zeros(size), torch.eye(size), forgetting

    def update(self, phi: Tensor, residual: float) -> None:
        """One step of the recursion of `models/references.py`."""
        gain, self.root = absorb(self.root, phi, self.forgetting, 1.0)
        self.w = self.w + residual * gain


def absorb(root: Tensor, phi: Tensor, forgetting: float, prior_sd: float) -> tuple[Tensor, Tensor]:
    """What a label does to the weights of least squares, and to the square root of their covariance."""
    f = root.T @ phi
    r = (f @ f).item()
    gain = root @ f
    s = math.sqrt(forgetting * (1.0 + r))
    c = (forgetting - (1.0 - forgetting) / max(r, 1e-6)) / (s * (1.0 + s))
    root = torch.addr(root, gain, f, alpha=-c)
    doubt = torch.where(root.square().sum(1) < prior_sd**2, max(forgetting, 0.9999) ** -0.5, 1.0)
    return gain / (1.0 + r), doubt[:, None] * root


class Correction:
    """What the inputs tell of the network's errors, as in `models/corrected.py`."""

    def __init__(self, size: int):
        self.weights, self.root = torch.zeros(2, size), 0.03 * torch.eye(size)
        self.proof, self.squares = [0.0] * 4, (0.0, 0.0)  # sums of r b, b^2, q c, c^2; of 1, r'^2

    def trust(self) -> tuple[float, float]:
        """a_1 and a_2."""
        rb, bb, qc, cc = self.proof
        return min(max(rb / (1.0 + bb), 0.0), 1.0), min(max(qc / (1.0 + cc), 0.0), 1.0)

    def apply(self, phi: Tensor, loc: Tensor, scale: Tensor, df: Tensor) -> tuple[Tensor, Tensor]:
        """The components [K], moved and stretched around their mean."""
        mean = loc.mean()
        self.mean = mean.item()
        self.sd = math.sqrt(((scale**2 * df / (df - 2.0)).mean() + (loc - mean).square().mean()).item())
        self.phi, (self.b, self.c) = phi, (self.weights @ phi).tolist()
        far, wide = self.trust()
        stretch = math.exp(min(max(wide * self.c, -1.0), 1.0))
        return stretch * loc + ((1.0 - stretch) * self.mean + far * self.b * self.sd), stretch * scale

    def update(self, y: float) -> None:
        """Learn from the label of the step that was predicted last."""
        r = (y - self.mean) / self.sd
        rest = min(max(r - self.trust()[0] * self.b, -3.0), 3.0) ** 2
        r = min(max(r, -3.0), 3.0)
        count, total = self.squares
        q = 0.5 * (rest * (count + 100.0) / (total + 100.0) - 1.0)
        gain, self.root = absorb(self.root, self.phi, 0.995, 0.03)
        self.weights = torch.addr(self.weights, torch.tensor([r - self.b, q - self.c]), gain)
        keep, new = 0.5 ** (1.0 / 500.0), (r * self.b, self.b**2, q * self.c, self.c**2)
        self.proof = [keep * old + more for old, more in zip(self.proof, new, strict=True)]
        self.squares = (keep * count + 1.0, keep * total + rest)


class Preset:
    """One stream: `predict`, then `observe`."""

    def __init__(self, given: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray):
        self.p = {name: torch.from_numpy(array) for name, array in given.items()}
        self.rows, self.labels, self.t = torch.from_numpy(x), y.tolist(), 0
        K, size = self.p["points"].shape[0], x.shape[1] + 1
        df = self.p["df"].expand(K)
        self.df = torch.cat([df, DF, DF, DF])
        self.reference_height, self.height = log_height(DF), log_height(self.df)
        self.h = torch.zeros(1, self.p["gru.weight_hh"].shape[1])
        self.informant, self.informant_variance = LeastSquares(size), 1.0
        self.correction = Correction(size + 4)
        self.regression, self.noises = LeastSquares(size), [Noise() for _ in range(3)]
        self.past = [math.nan] * 25  # labels, newest last
        self.last, self.anchor = 0.0, math.nan
        self.surprise, self.due = (0.0, 0.0), (0.0, 0.0, 0.0)  # of the informant; for the memory
        self.log_members = torch.full((4,), -math.log(4.0))
        self.counts, self.spread = torch.zeros(BINS), (0.0, 0.0)

    @torch.inference_mode()
    def __call__(self, steps: int) -> int:
        """So many events; the number of steps taken."""
        for _ in range(steps):
            t = self.t % len(self.labels)
            self.report = self.predict(self.rows[t])
            self.score = self.observe(self.labels[t])
            self.t += 1
        return steps

    def predict(self, x: Tensor) -> list[float]:
        """[mean, sd, aleatoric, epistemic, five quantiles]."""
        self.phi = torch.cat([torch.ones(1), x])
        self.anchor = self.last if self.t else math.nan
        mixture = self.mixture = self._mix(x)
        knots = self.knots = self._knots()
        means = mixture.loc
        variances = mixture.scale**2 * mixture.df / (mixture.df - 2.0)
        mean, aleatoric = (torch.stack([means, variances]) @ mixture.weights).tolist()
        epistemic = (mixture.weights @ (means - mean) ** 2).item()
        variance = aleatoric + epistemic
        sd = math.sqrt(variance)
        # The density on a grid, and its running integral from both sides.
        p = mixture.densities(mean + sd * PLACE)
        mass = SLOPE * p
        rise = ((13.0 * (mass[1:-2] + mass[2:-1]) - mass[:-3] - mass[3:]) / 24.0).clamp_min(0.0)
        climb, fall = rise.cumsum(0), rise.flip(0).cumsum(0).flip(0)
        zero = torch.zeros(1)
        F, S = torch.cat([zero, climb / climb[-1]]), torch.cat([fall / climb[-1], zero])
        D = torch.where(F < 0.5, _piecewise(F, knots) - F, S - _piecewise(S, 1.0 - knots.flip(0)))
        D = D * (sd * SLOPE[1:-1])
        away = sd * PLACE[1:-1]
        shift, second = torch.stack([D.sum(), (away * D).sum()]).tolist()
        warped = variance - 2.0 * second - shift**2
        quantiles = self._quantiles(_unwarp(LEVELS, knots), F, mean + away)
        share = warped / variance
        return [mean - shift, math.sqrt(warped), share * aleatoric, share * epistemic, *quantiles.tolist()]

    def observe(self, y: float) -> tuple[float, float]:
        """(PIT, log density) of the label; then everything learns from it."""
        mixture = self.mixture
        logs = mixture.log_weights + mixture.log_probs(y)
        pit = mixture.measure(y)[0]
        heights = BINS * self.knots.diff()
        place = min(int(BINS * pit.item()), BINS - 1)
        score = (_piecewise(pit, self.knots).item(), (torch.logsumexp(logs, 0) + heights[place].log()).item())
        self._learn(y, pit, logs)
        return score

    def _learn(self, y: float, pit: Tensor, logs: Tensor) -> None:
        z = torch.special.ndtri(pit.clamp(1e-4, 1.0 - 1e-4)).item()
        right = 0.5 * (1.0 + math.erf(z / self._width() / math.sqrt(2.0)))
        self.counts = 0.5 ** (1.0 / HALF_LIFE) * self.counts
        self.counts[min(int(BINS * right), BINS - 1)] += 1.0
        keep = 0.5 ** (1.0 / 600.0)
        self.spread = (keep * self.spread[0] + 1.0, keep * self.spread[1] + z**2)
        # Members: their log densities, without the weights they had.
        K, G = len(logs) - 3 * len(CANDIDATES), len(CANDIDATES)
        members = torch.stack(
            [
                torch.logsumexp(logs[:K], 0),
                *(torch.logsumexp(logs[K + G * i : K + G * (i + 1)], 0) for i in range(3)),
            ]
        )
        moved = torch.softmax(self.log_members + POWER * (members - self.log_members), 0)
        self.log_members = torch.log((1.0 - SHARE) * moved + SHARE / 4)
        for noise, point in zip(self.noises, self.points, strict=True):
            noise.update(y - point, self.reference_height)
        self.regression.update(self.phi, y - self.points[0])
        self.past, self.last = [*self.past[1:], y], y
        if math.isnan(self.anchor):
            return
        residual = y - self.anchor
        u = min(max((residual - self.told[0]) / math.exp(self.told[1]), -6.0), 6.0)
        error = residual - self.point
        self.informant.update(self.phi, error)
        self.informant_variance += 0.02 * (error**2 - self.informant_variance)
        self.correction.update(residual)
        self.surprise, self.due = (u, abs(u) - 0.7), (residual, abs(residual) - 0.7, 1.0)

    def _mix(self, x: Tensor) -> Mixture:
        """The network's components and those of the references."""
        p = self.p
        self.point = (self.informant.w @ self.phi).item()
        log_sd = 0.5 * math.log(self.informant_variance + 1e-10)
        self.told = (min(max(self.point, -6.0), 6.0), min(max(log_sd, -6.0), 6.0))
        informed = torch.cat([x, torch.tensor([*self.told, *self.surprise])])
        e = torch.cat([informed, torch.tensor(self.due)])
        e = torch.tanh(torch.addmv(p["encoder.0.bias"], p["encoder.0.weight"], e))
        e = torch.tanh(torch.addmv(p["encoder.1.bias"], p["encoder.1.weight"], e))
        gates = (p["gru.weight_ih"], p["gru.weight_hh"], p["gru.bias_ih"], p["gru.bias_hh"])
        self.h = torch.gru_cell(e[None], self.h, *gates)
        self.surprise, self.due = (0.0, 0.0), (0.0, 0.0, 0.0)
        mean, log_scale = torch.addmv(p["prior.bias"], p["prior.weight"], self.h[0]).chunk(2)
        z = mean + log_scale.clamp(-7.0, 4.0).exp() * p["points"]
        g = torch.tanh(torch.addmm(p["basis.bias"], z, p["basis.weight"].T))
        hidden = torch.tanh(self._shared("first", informed, g))
        weight = p["second.base"] + torch.einsum("kg,goi->koi", g, p["second.weight"])
        out = (weight @ hidden[:, :, None])[:, :, 0] + g @ p["second.bias"] + p["second.base_bias"]
        skip = self._shared("skip", informed, g)
        anchor = 0.0 if math.isnan(self.anchor) else self.anchor
        loc, scale = out[:, 0] + skip[:, 0], (0.5 * out[:, 1]).clamp(-8.0, 8.0).exp()
        phi = torch.cat([torch.ones(1), informed.clamp(-6.0, 6.0)])
        loc, scale = self.correction.apply(phi, loc, scale, self.df[: len(loc)])
        loc = loc + anchor
        repeated = self.last if math.isnan(self.past[-24]) else self.past[-24]
        self.points = ((self.regression.w @ self.phi).item(), repeated, self.last)
        references = torch.tensor(self.points).repeat_interleave(len(CANDIDATES))
        scales = torch.cat([noise.scale() for noise in self.noises])
        log_weights = torch.log_softmax(torch.stack([noise.score for noise in self.noises]), 1)
        log_weights = torch.cat(
            [
                (self.log_members[0] - math.log(len(loc))).expand(len(loc)),
                (log_weights + self.log_members[1:, None]).flatten(),
            ]
        )
        return Mixture(
            torch.cat([loc, references]), torch.cat([scale, scales]), self.df, self.height, log_weights
        )

    def _shared(self, layer: str, x: Tensor, g: Tensor) -> Tensor:
        """A generated layer on one x: x meets the generator once, no K weight matrices are written out."""
        weight, bias, base, base_bias = (
            self.p[f"{layer}.{part}"] for part in ("weight", "bias", "base", "base_bias")
        )
        return g @ (weight @ x + bias) + (base @ x + base_bias)

    def _width(self) -> float:
        return max(math.sqrt((100.0 + self.spread[1]) / (100.0 + self.spread[0])), 0.7)

    def _knots(self) -> Tensor:
        """The function that puts the probabilities right, at 0, 1 / 20, ..., 1."""
        climb = TRIANGLE @ (self.counts + PRIOR / BINS)
        ends = torch.zeros(1), torch.ones(1)
        G = torch.cat([ends[0], climb[:-1] / climb[-1], ends[1]])
        return torch.cat([ends[0], _piecewise(torch.special.ndtr(EDGES / self._width()), G), ends[1]])

    def _quantiles(self, levels: Tensor, F: Tensor, u: Tensor) -> Tensor:
        cell = torch.searchsorted(F, levels).clamp(1, len(F) - 1)
        low, high = F[cell - 1], F[cell]
        y = u[cell - 1] + (levels - low) / (high - low) * (u[cell] - u[cell - 1])
        for _ in range(2):
            below, density = self.mixture.measure(y[:, None])
            y = y + (levels - below) / density
        return y


def _piecewise(p: Tensor, knots: Tensor) -> Tensor:
    """Linear between equally spaced knots on [0, 1]."""
    i = (BINS * p).long().clamp(0, BINS - 1)
    return knots[i] + (BINS * p - i) * (knots[i + 1] - knots[i])


def _unwarp(q: Tensor, knots: Tensor) -> Tensor:
    """The inverse of `_piecewise`."""
    i = (torch.searchsorted(knots, q, right=True) - 1).clamp(0, BINS - 1)
    return (i + (q - knots[i]) / (knots[i + 1] - knots[i])) / BINS
