"""Laws of compute times that differ in one setting, which must matter."""

from tests.knob_cases import FAST, MARKOV, SLOW, Case, law, mixed, weights

OF_LAWS: dict[str, tuple[Case, ...]] = {
    "Constant.value": law("constant", value=(0.1, 0.2)),
    "Uniform.low": law("uniform", low=(0.0, 0.1), high=0.2),
    "Uniform.high": law("uniform", low=0.1, high=(0.2, 0.3)),
    "Normal.mean": law("normal", mean=(0.1, 0.2), std=0.01),
    "Normal.std": law("normal", mean=0.1, std=(0.01, 0.02)),
    "Exponential.mean": law("exponential", mean=(0.1, 0.2)),
    "ShiftedExponential.minimum": law("shifted_exponential", minimum=(0.0, 0.05), mean=0.1),
    "ShiftedExponential.mean": law("shifted_exponential", minimum=0.05, mean=(0.1, 0.2)),
    "Lognormal.mean": law("lognormal", mean=(0.1, 0.2), sigma=0.5),
    "Lognormal.sigma": law("lognormal", mean=0.1, sigma=(0.5, 0.6)),
    "Lognormal.median": law("lognormal", mean=0.1, median=(0.05, 0.06)),
    "Gamma.mean": law("gamma", mean=(0.1, 0.2), shape=2.0),
    "Gamma.shape": law("gamma", mean=0.1, shape=(2.0, 3.0)),
    "Weibull.mean": law("weibull", mean=(0.1, 0.2), shape=2.0),
    "Weibull.shape": law("weibull", mean=0.1, shape=(2.0, 3.0)),
    "Pareto.minimum": law("pareto", minimum=(0.1, 0.2), alpha=3.0),
    "Pareto.alpha": law("pareto", minimum=0.1, alpha=(3.0, 4.0)),
    "Gumbel.location": law("gumbel", location=(0.1, 0.2), scale=0.02),
    "Gumbel.scale": law("gumbel", location=0.1, scale=(0.01, 0.02)),
    "Mixture.components": law("mixture", components=mixed(SLOW, FAST)),
    "Component.weight": law("mixture", components=(weights(1.0, 1.0), weights(1.0, 5.0))),
    "Component.law": law("mixture", components=mixed(FAST, SLOW)),
    "Stages.first": law("stages", first=(FAST, SLOW), works=0.5, second=SLOW),
    "Stages.works": law("stages", first=FAST, works=(0.05, 0.95), second=SLOW),
    "Stages.second": law("stages", first=FAST, works=0.5, second=(FAST, SLOW)),
    "Markov.fast": law("markov", **{**MARKOV, "fast": (FAST, {**FAST, "value": 0.2})}),
    "Markov.slow": law("markov", **{**MARKOV, "slow": (SLOW, {**SLOW, "value": 0.4})}),
    "Markov.to_slow": law("markov", **{**MARKOV, "to_slow": (0.4, 0.9)}),
    "Markov.to_fast": law("markov", **{**MARKOV, "to_fast": (0.4, 0.05)}),
    "BatchCurve.fixed": law("batch_curve", fixed=(0.1, 0.2), per_example=0.01),
    "BatchCurve.per_example": law("batch_curve", fixed=0.1, per_example=(0.01, 0.02)),
    "BatchCurve.sigma": law("batch_curve", fixed=0.1, per_example=0.01, sigma=(0.1, 0.2)),
    "Correlated.law": law("correlated", law=(FAST, SLOW), step=0.2),
    "Correlated.step": law("correlated", law=FAST, step=(0.1, 0.2)),
    "Correlated.node": law("correlated", law=FAST, node=(0.1, 0.2), workers_per_node=2),
    "Correlated.worker": law("correlated", law=FAST, worker=(0.1, 0.2)),
    "Correlated.workers_per_node": law(
        "correlated", law=FAST, node=0.1, workers_per_node=(1, 3)
    ),
    "MeasuredTimes.replay": law(
        "trace", seconds=((0.1, 0.2, 0.3, 0.4),), replay=("cycle", "resample")
    ),
    "MeasuredTimes.seconds": law("trace", seconds=(((0.1,),), ((0.2,),))),
}  # fmt: skip
