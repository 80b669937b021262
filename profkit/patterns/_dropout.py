"""Names of the operators of dropout."""

DROPOUT = r"^aten::(?:(?:native|feature|alpha|feature_alpha)_)?dropout_?$"
DRAWS = r"^aten::(?:native_dropout|bernoulli_?|_fused_dropout)$"
"""What draws the random numbers: where nothing is dropped, none is called."""
