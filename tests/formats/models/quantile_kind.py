"""A kind of model that only tests have: its file fixes the width of input and output."""

from roost_formats.models.signature import Budget, Signature, Tensor

QUANTILES = Signature(
    kind="quantiles",
    title="a predictor of quantiles",
    schema_version=1,
    batch=("job",),
    inputs=(Tensor(name="features", sizes=("job", "feature")),),
    outputs=(Tensor(name="quantiles", sizes=("job", "quantile")),),
    canary_tolerance=1e-4,
    budget=Budget(answer_s=0.050),
)
