"""Examples of `clipping_in_a_loop`."""

from tests.patterns.recorded import op


def norms(count, **columns):
    made = [op(n, "aten::linalg_vector_norm", 90_000 // count, **columns) for n in range(count)]
    return {"cpu_ops": made}


FOUND = norms(30)
EXPECTED = ("cpu_operators.aten::linalg_vector_norm", 90_000, "clip_grad_norm_")
PASSED = {"one norm": norms(1), "norms of a model": norms(30, module="Model;Cosine")}
