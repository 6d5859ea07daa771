"""Ops and losses as autograd functions of PyTorch: values, gradients, dtypes, copies, and what is refused."""

import inspect
import threading
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import cases
import loss_cases
import numpy as np
import pytest
from cases import distance
from loss_cases import EACH, IDS, data
from reference import losses as ref
from refusals import refuses

import tpugraphs as tg
from tpugraphs import _core, kernels

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch", reason="the bridge needs PyTorch: pip install '.[torch]'")
    fn = torch.nn.functional

from tpugraphs.torch import bridge

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
CASES = pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.id)
EACH_OP = {case.op: case for case in cases.CASES}
SOME = pytest.mark.parametrize("case", EACH_OP.values(), ids=list(EACH_OP))
SMOOTH = {op: case for op, case in EACH_OP.items() if case.gradients(case.arguments())}
# Every op of the core, those with a face by hand included: as the cases of the ops call them.
FUNCTIONS = {
    op["name"]: bridge.op_function(op["name"], *(cases.FACES[op["name"] + s] for s in ("", "_backward")))
    for op in _core.ops()
}


def strided(tensor):
    """The same numbers with other strides, where a shape allows it."""
    wide = torch.zeros((*tensor.shape, 2), dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


def tensors_of(case, arguments, dtype=torch.float32):
    """The arguments as tensors, edges as PyG has them; those with a gradient require one."""
    made = {
        name: torch.from_numpy(array.T if name == "edge_index" else array)
        for name, array in cases.single(arguments).items()
    }
    wanted = case.gradients(arguments)
    return {
        name: tensor.to(dtype).requires_grad_() if name in wanted else tensor for name, tensor in made.items()
    }


def called(case, tensors, dy):
    """Result and gradients by name of one call with these tensors."""
    y = FUNCTIONS[case.op](**tensors, **case.attrs)
    assert y.requires_grad == any(tensor.requires_grad for tensor in tensors.values())
    if y.requires_grad:
        y.backward(torch.from_numpy(dy).to(y.dtype))
    return y, {name: tensor.grad for name, tensor in tensors.items() if tensor.requires_grad}


def same(tensor, array):
    return tensor.detach().numpy().tobytes() == array.tobytes() and tuple(tensor.shape) == array.shape


# ---- every op ----


def test_every_op_and_loss_of_the_core_is_bridged():
    pairs = {name for name in kernels.__all__ if f"{name}_backward" in kernels.__all__}
    by_hand = {"sage": "sage_conv"}
    assert set(tg.torch.OPS) == pairs
    assert {by_hand.get(op["name"], op["name"]) for op in _core.ops()} <= pairs
    assert set(tg.torch.LOSSES) == {"weighted_sum", *(loss["name"] for loss in _core.losses())}
    for name in (*tg.torch.OPS, *tg.torch.LOSSES):
        face, theirs = getattr(tg.torch, name), getattr(kernels, name)
        ours = list(inspect.signature(face).parameters)
        assert ours == [n for n in inspect.signature(theirs).parameters if n not in ("out", "result")]
        said = inspect.getdoc(theirs).partition("loss : float")[0]
        said = said.replace("edge_index : (E, 2) int64", "edge_index : (2, E) int64, as in PyTorch Geometric")
        assert face.__doc__.startswith(said) and "(E, 2)" not in face.__doc__
        assert "Raises\n------" in face.__doc__ and name in tg.torch.__all__
        returned = face.__doc__.partition("Returns\n-------\n")[2]
        assert (
            returned.startswith("torch.Tensor\n") == (name in tg.torch.LOSSES) and "dscores" not in returned
        )


@CASES
def test_op_has_the_bits_of_the_kernel(case):
    arguments = case.arguments()
    y = cases.forward32(case, arguments)
    dy = np.float32(cases.direction_of(case, y))
    expected = cases.backward32(case, dy, arguments)
    found, gradients = called(case, tensors_of(case, arguments), dy)
    assert same(found, y) and found.dtype == torch.float32
    assert set(gradients) == set(expected) - {"digits"}
    for name, gradient in gradients.items():
        assert same(gradient, expected[name]), name


@CASES
def test_gradient_is_the_slope_of_the_op(case):
    """By central differences of the float64 reference, of which the op itself is the rounded value."""
    arguments = case.arguments()
    reference = cases.forward64(case, arguments)
    dy = cases.direction_of(case, reference)
    y, gradients = called(case, tensors_of(case, arguments, torch.float64), dy)
    assert y.dtype == (torch.float64 if gradients else torch.float32)
    assert distance(y.detach().numpy(), reference, case.floor) <= case.tolerance
    for name, gradient in gradients.items():
        assert gradient.dtype == torch.float64
        whole = gradient.numpy()
        size = max(np.linalg.norm(whole), case.floor * np.sqrt(whole.size))  # as in cases.distance
        close = 5 * case.tolerance * size + 1e-7 * np.linalg.norm(dy)

        def slope(v, h=1e-6):
            ends = [cases.forward64(case, arguments | {name: arguments[name] + s * v}) for s in (h, -h)]
            return np.sum(dy * (ends[0] - ends[1])) / (2 * h)

        # A direction may step over a kink of relu; a wrong gradient is wrong in every direction.
        assert any(
            abs(slope(v) - np.sum(whole * v)) <= close
            for v in np.random.default_rng(7).normal(size=(3, *whole.shape))
        ), name


@SOME
def test_strides_and_dtypes_change_nothing_but_the_dtype(case):
    arguments = case.arguments()
    dy = np.float32(cases.direction_of(case, cases.forward32(case, arguments)))
    plain, gradients = called(case, tensors_of(case, arguments), dy)
    apart = {
        name: strided(tensor.detach()).requires_grad_(tensor.requires_grad)
        for name, tensor in tensors_of(case, arguments).items()
    }
    found, others = called(case, apart, strided(torch.from_numpy(dy)).numpy())
    assert torch.equal(found, plain) and all(torch.equal(others[n], g) for n, g in gradients.items())
    double, others = called(case, tensors_of(case, arguments, torch.float64), dy)
    assert double.dtype == (torch.float64 if gradients else torch.float32)
    assert torch.equal(double.float(), plain)
    for name, gradient in gradients.items():
        assert others[name].dtype == torch.float64 and torch.equal(others[name].float(), gradient), name


@SOME
def test_only_what_requires_a_gradient_has_one(case):
    arguments = case.arguments()
    dy = np.float32(cases.direction_of(case, cases.forward32(case, arguments)))
    _, expected = called(case, tensors_of(case, arguments), dy)
    for name in expected:
        tensors = tensors_of(case, arguments)
        for other in set(expected) - {name}:
            tensors[other].requires_grad_(False)
        _, gradients = called(case, tensors, dy)
        assert list(gradients) == [name] and torch.equal(gradients[name], expected[name])
        assert all(tensors[other].grad is None for other in set(expected) - {name})
    tensors = {name: tensor.detach() for name, tensor in tensors_of(case, arguments).items()}
    y = FUNCTIONS[case.op](**tensors, **case.attrs)
    assert not y.requires_grad and y.grad_fn is None


@pytest.mark.parametrize("case", SMOOTH.values(), ids=list(SMOOTH))
def test_second_derivatives_of_ops_are_refused(case):
    arguments = case.arguments()
    tensors = tensors_of(case, arguments)
    leaves = [tensor for tensor in tensors.values() if tensor.requires_grad]
    y = FUNCTIONS[case.op](**tensors, **case.attrs)
    first = torch.autograd.grad((y * y).sum(), leaves, create_graph=True)
    plain = torch.autograd.grad((FUNCTIONS[case.op](**tensors, **case.attrs) ** 2).sum(), leaves)
    assert all(torch.equal(a, b) for a, b in zip(first, plain, strict=True))  # the first ones are right
    with pytest.raises(tg.errors.ConfigError, match=rf"tg\.torch\.{case.op}: .* found a second derivative; "):
        sum(gradient.sum() for gradient in first).backward()


# ---- functions by hand, against PyTorch's own ----


def randn(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def gate(x, w1, b1, w2, b2):
    return torch.sigmoid(fn.linear(fn.relu(fn.linear(x, w1, b1)), w2, b2)) * x


EDGES = torch.tensor([[0, 0, 3, 4, 4], [1, 2, 1, 1, 4]])  # columns (u, v): v receives from u
DIGITS, CONFIG_NODES = torch.randint(-1, 6, (3, 2, 18), dtype=torch.int8), torch.tensor([1, 4])
OPCODES = torch.tensor([3, 0, 3, 7, 1], dtype=torch.uint8)


def mean_over_edges(x, edges, w_l, b_l, w_r):
    received = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
    count = torch.bincount(edges[1], minlength=len(x)).clamp(min=1)
    return fn.linear(received / count.reshape(-1, *[1] * (x.ndim - 1)), w_l, b_l) + fn.linear(x, w_r)


def of_digits(h, digits, nodes, weight, bias, table):
    rows = torch.zeros((len(h), len(digits), 18), dtype=torch.int64)
    rows[nodes] = digits.transpose(0, 1).long() + 2
    wide = torch.cat([h[:, None].expand(-1, len(digits), -1), table[rows].flatten(-2)], -1)
    return fn.linear(wide, weight, bias)


HAND = {  # name: (arguments, the same in PyTorch)
    "linear": (lambda: (randn(2, 6, 4), randn(3, 4), randn(3)), fn.linear),
    "embedding": (
        lambda: (randn(5, 2), OPCODES, randn(9, 3)),
        lambda x, index, weight: torch.cat([x, weight[index.long()]], -1),
    ),
    "config_linear": (
        lambda: (randn(5, 3), DIGITS, CONFIG_NODES, randn(4, 3 + 18 * 2), randn(4), randn(8, 2)),
        of_digits,
    ),
    "sage_conv": (lambda: (randn(5, 3, 4), EDGES, randn(2, 4), randn(2), randn(2, 4)), mean_over_edges),
    "instance_norm": (
        lambda: (randn(7, 3, 4),),
        lambda x: (x - x.mean(0)) / torch.sqrt(x.var(0, correction=0) + 1e-5),
    ),
    "mix": (
        lambda: (randn(6, 3, 4), randn(6, 3, 8), randn(2, 4), randn(2), randn(4, 2), randn(4), randn(1)),
        lambda z, r, w1, b1, w2, b2, t: (
            torch.cat([gate(z, w1, b1, w2, b2), (u := gate(z, w1, b1, w2, b2)) * fn.softmax(u / t, 1)], -1)
            + r
        ),
    ),
    "channel_attention": (lambda: (randn(6, 3, 4), randn(2, 4), randn(2), randn(4, 2), randn(4)), gate),
    "gelu": (lambda: (randn(2, 3, 5),), fn.gelu),
    "pool": (lambda: (randn(6, 3, 4),), lambda x: x.mean(0)),
    "config_attention": (lambda: (randn(6, 3, 4), randn(1)), lambda x, t: x * fn.softmax(x / t, 1)),
    "mlp": (
        lambda: (randn(6, 4), [randn(5, 4), randn(2, 5)], [randn(5), randn(2)]),
        lambda x, w, b: fn.linear(fn.gelu(fn.linear(x, w[0], b[0])), w[1], b[1]),
    ),
}


@pytest.mark.parametrize("name", HAND)
def test_functions_by_hand_equal_those_of_pytorch(name):
    made, theirs = HAND[name]
    arguments = made()
    leaves = [
        leaf
        for argument in arguments
        for leaf in (argument if isinstance(argument, list) else [argument])
        if leaf.requires_grad
    ]
    y, expected = getattr(tg.torch, name)(*arguments), theirs(*arguments)
    assert y.dtype == torch.float64
    torch.testing.assert_close(y, expected, rtol=1e-5, atol=1e-5)
    dy = torch.randn(y.shape, dtype=torch.float64)
    pairs = (torch.autograd.grad(result, leaves, dy) for result in (y, expected))
    for found, wanted in zip(*pairs, strict=True):
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5)


def test_functions_by_hand_are_all_tried():
    made = {op["name"] for op in _core.ops()}
    assert set(tg.torch.OPS) - made <= set(HAND)
    assert {face.name for face in kernels.ops.NAMED} <= set(HAND)


# ---- losses ----


def given_tensors(given):
    return {name: torch.from_numpy(np.asarray(array)) for name, array in given.items()}


@pytest.mark.parametrize(("case", "reduction"), EACH, ids=IDS)
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weighted"])
def test_loss_has_the_bits_of_the_kernel(case, reduction, weights):
    scores, given = data(case, 1, 40, ties=True, weights=weights)
    value, gradient = loss_cases.run(case, reduction, scores, **given)
    tensor = torch.from_numpy(scores).requires_grad_()
    options = case.attrs | {"reduction": reduction}
    loss = getattr(tg.torch, case.loss)(tensor, **given_tensors(given), **options)
    assert loss.shape == () and loss.dtype == torch.float32 and loss.item() == np.float32(value)
    (3 * loss).backward()
    assert torch.equal(tensor.grad, 3 * torch.from_numpy(gradient))
    summed = tg.torch.weighted_sum(tensor, [case.term(reduction)], **given_tensors(given))
    assert torch.equal(summed, loss)


@pytest.mark.parametrize(("case", "reduction"), EACH, ids=IDS)
def test_gradient_is_the_slope_of_the_loss(case, reduction):
    scores, given = data(case, 3, 20, ties=True)
    scores = np.random.default_rng(3).normal(size=20).astype(np.float32)  # no ties: they are kinks
    tensor = torch.from_numpy(scores.astype(np.float64)).requires_grad_()
    options = case.attrs | {"reduction": reduction}
    loss = getattr(tg.torch, case.loss)(tensor, **given_tensors(given), **options)
    assert loss.dtype == torch.float64
    assert loss.item() == loss_cases.run(case, reduction, scores, **given)[0]  # with all its digits
    loss.backward()
    assert tensor.grad.dtype == torch.float64
    for d in np.random.default_rng(4).normal(size=(5, 20)):
        ends = [
            ref.weighted_sum(scores.astype(np.float64) + h * d, [case.term(reduction)], **given)[0]
            for h in (1e-6, -1e-6)
        ]
        slope = (ends[0] - ends[1]) / 2e-6
        assert abs(slope - tensor.grad.numpy() @ d) <= 1e-5 * max(1.0, abs(slope))


THEIRS = {
    "mse": lambda s, t: fn.mse_loss(s, t),
    "cross_entropy": lambda s, t: fn.binary_cross_entropy_with_logits(s, t),
    "pairwise_hinge": lambda s, t: (
        (1 - (s[:, None] - s)).clamp(min=0) * (t[:, None] > t)
    ).sum() / len(s) ** 2,
    "list_mle": lambda s, t: (
        (r := s[t.argsort(descending=True)]).flip(0).logcumsumexp(0).flip(0) - r
    ).sum(),
    "ranknet": lambda s, t: (
        fn.softplus(-(s[:, None] - s)) * (t[:, None] > t)
    ).sum() / (t[:, None] > t).sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", THEIRS)
def test_losses_equal_those_of_pytorch(name):
    scores = randn(30)
    targets = torch.rand(30, dtype=torch.float64)
    options = {"reduction": "mean-pairs"} if name == "ranknet" else {}
    ours = getattr(tg.torch, name)(scores, targets, **options)
    expected = THEIRS[name](scores, targets)
    torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)
    found, wanted = (torch.autograd.grad(loss, scores)[0] for loss in (ours, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_lists_and_targets_of_any_dtype_and_stride():
    scores = torch.randn(10)
    runtimes, offsets = torch.randperm(10) + 5, torch.tensor([0, 4, 10])
    leaf = scores.clone().requires_grad_()
    expected = tg.torch.list_mle(leaf, runtimes, offsets=offsets)
    for other in (runtimes.int(), runtimes.float(), runtimes.double(), runtimes.half(), strided(runtimes)):
        again = strided(scores).requires_grad_()
        loss = tg.torch.list_mle(again, other, offsets=strided(offsets))
        assert torch.equal(loss, expected)
        assert torch.equal(
            *(torch.autograd.grad(v, s, retain_graph=True)[0] for v, s in ((loss, again), (expected, leaf)))
        )
    for dtype in (torch.float64, torch.float16, torch.bfloat16):
        values = torch.arange(10).to(dtype)
        half = scores.to(dtype).requires_grad_()
        loss = tg.torch.mse(half, values, weights=torch.ones(10, dtype=dtype))
        loss.backward()
        assert loss.dtype == half.grad.dtype == dtype
        torch.testing.assert_close(loss, fn.mse_loss(half, values), rtol=1e-2, atol=1e-2)


# ---- memory ----


def test_float32_tensors_are_read_in_place_and_others_are_copied():
    x = torch.randn(6, 4)
    array = bridge.as_array("x", x.requires_grad_())
    assert array.ctypes.data == x.data_ptr()
    assert bridge.as_array("x", x[2:]).ctypes.data == x[2:].data_ptr()
    for other in (x.double(), x.half(), x.T, x[:, 1:], x.expand(2, 6, 4)):
        copy = bridge.as_array("x", other)
        assert copy.dtype == np.float32 and copy.flags.c_contiguous and copy.shape == tuple(other.shape)
        assert copy.ctypes.data != other.data_ptr()
        np.testing.assert_array_equal(copy, other.detach().float().numpy())
    edges = torch.tensor([[0, 1], [2, 3], [1, 1]])
    assert bridge.as_array("edge_index", edges).ctypes.data == edges.data_ptr()
    assert bridge.as_array("values", x.double(), bridge.DOUBLE).dtype == np.float64


def test_inputs_are_not_changed_and_results_belong_to_the_caller():
    x, w, b = torch.randn(6, 4), torch.randn(3, 4), torch.randn(3)
    kept = [tensor.clone() for tensor in (x, w, b)]
    y = tg.torch.linear(x, w, b)
    y.zero_()
    assert all(torch.equal(a, b) for a, b in zip(kept, (x, w, b), strict=True))


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor


def holders():
    """Hooks for saved tensors that keep each in an object, and weak references to those."""
    made = []

    def pack(tensor):
        holder = Holder(tensor)
        made.append(weakref.ref(holder))
        return holder

    return made, torch.autograd.graph.saved_tensors_hooks(pack, lambda holder: holder.tensor)


def test_saved_tensors_are_freed_by_backward():
    x, w = torch.randn(6, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    for call in (
        lambda: tg.torch.linear(x, w, None).sum(),
        lambda: tg.torch.list_mle(x[:, 0], torch.arange(6)),
    ):
        made, hooks = holders()
        with hooks:
            loss = call()
        assert made and all(reference() is not None for reference in made)
        loss.backward(retain_graph=True)
        assert all(reference() is not None for reference in made)
        loss.backward()
        assert loss.grad_fn is not None and all(reference() is None for reference in made)
        refuses(loss.backward, RuntimeError, "second time")


def test_without_gradients_nothing_is_saved():
    x = torch.randn(6, 4, requires_grad=True)
    made, hooks = holders()
    with hooks, torch.no_grad():
        y = tg.torch.gelu(x)
        loss = tg.torch.mse(y[:, 0], torch.zeros(6))
    with hooks, torch.inference_mode():
        tg.torch.gelu(x)
    assert not made and y.grad_fn is None and loss.grad_fn is None and not y.requires_grad


def test_a_change_in_place_before_backward_is_noticed():
    x, w = torch.randn(6, 4), torch.randn(3, 4, requires_grad=True)
    y = tg.torch.linear(x, w, None)
    x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_run_and_may_call_the_bridge():
    x, w = torch.randn(6, 4, requires_grad=True), torch.nn.Parameter(torch.randn(3, 4))
    seen = []
    x.register_hook(lambda g: seen.append((torch.is_grad_enabled(), tg.torch.gelu(g))) or 2 * g)

    class Layer(torch.nn.Module):
        def forward(self, x):
            return tg.torch.linear(x, w, None)

    layer = Layer()
    layer.register_forward_hook(lambda module, arguments, y: 3 * y)
    layer.register_full_backward_hook(lambda module, dx, dy: seen.append(dy[0]))
    layer(x).sum().backward()
    torch.testing.assert_close(x.grad, 6 * w.detach().sum(0).expand(6, 4))
    assert torch.equal(seen[0], torch.ones(6, 3))
    enabled, bent = seen[1]
    assert not enabled
    torch.testing.assert_close(bent, fn.gelu(3 * w.detach().sum(0).expand(6, 4)))


def test_an_optimizer_learns_and_a_module_holds_it():
    torch.manual_seed(1)
    x, runtimes = torch.randn(40, 5), torch.randperm(40)
    model = torch.nn.Linear(5, 1)
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.1), []
    for _ in range(30):
        optimizer.zero_grad()
        loss = tg.torch.pairwise_hinge(tg.torch.linear(x, model.weight, model.bias)[:, 0], runtimes)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]


# ---- what is refused ----


def test_wrong_arguments_name_what_is_wrong():
    x, w, b = torch.randn(6, 4), torch.randn(3, 4), torch.zeros(3)
    config, shape = tg.errors.ConfigError, tg.errors.ShapeError
    for call, error, *names in (
        (lambda: tg.torch.linear(x.to("meta"), w, None), config, "x:", "meta", "x.cpu()"),
        (lambda: tg.torch.linear(x.to_sparse(), w, None), config, "x:", "torch.sparse_coo", "x.to_dense()"),
        (lambda: tg.torch.linear(x, w.to("meta"), None), config, "weight"),
        (lambda: tg.torch.list_mle(x[:, 0], torch.arange(6).to("meta")), config, "runtimes"),
        (lambda: tg.torch.linear(x.long(), w, None), shape, "x:", "float32", "int64 (6, 4)"),
        (lambda: tg.torch.sage_conv(x, torch.zeros((2, 3)), w, b, w), shape, "edge_index", "int64", "(E, 2)"),
        (lambda: tg.torch.mse(np.zeros(3, np.float32), b), config, "scores", "ndarray", "tg.kernels.mse"),
        (lambda: tg.torch.linear(x, w, None, out=x), TypeError, "linear", "out"),
        (lambda: tg.torch.matmul, AttributeError, "matmul"),  # it has no gradient
    ):
        refuses(call, error, *names)
    weights, biases = [w, torch.randn(2, 3)], [torch.randn(3), torch.randn(2)]
    for i, found in ((0, "NoneType"), (1, "ndarray")):
        mixed = [bias if k != i else None if i == 0 else bias.numpy() for k, bias in enumerate(biases)]
        refuses(lambda: tg.torch.mlp(x, weights, mixed), config, "biases", found, f"index {i}")
    for rows in (3, 1, 0):
        edges = torch.zeros((rows, 2), dtype=torch.int64)
        flat = edges[0, :0] if rows else edges[:, 0]
        for given, *names in (
            (edges, f"({rows}, 2)", "edge_index.T"),
            (edges.numpy(), f"({rows}, 2)", "edge_index.T"),
            (flat, "two rows"),
            ([[0, 1]] * 2, "list", "two rows"),
        ):
            refuses(lambda: tg.torch.sage_conv(x, given, w, b, w), shape, "edge_index", "(2, E)", *names)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU; the device meta stands for it")
def test_tensors_of_a_gpu_are_refused():
    with pytest.raises(tg.errors.ConfigError, match=r"found one on cuda:0; pass x\.cpu\(\)"):
        tg.torch.gelu(torch.zeros((2, 2), device="cuda"))


def test_edges_are_two_rows_even_if_there_are_two():
    x, w = torch.tensor([[1.0], [10.0], [100.0]]), torch.ones(1, 1)
    b, zero = torch.zeros(1), torch.zeros(1, 1)
    for edges in (torch.tensor([[0, 1], [1, 2]]), torch.tensor([[0, 1, 2], [1, 2, 1]])):
        kept = torch.zeros(3, 1).index_add(0, edges[1], x[edges[0]])
        expected = kept / torch.bincount(edges[1], minlength=3).clamp(min=1)[:, None]
        for given in (edges, strided(edges), edges.T.contiguous().T, edges.numpy()):
            assert torch.equal(tg.torch.sage_conv(x, given, w, b, zero), expected)
    found = tg.kernels.sage_conv(x.numpy(), edges.T.numpy().copy(), w.numpy(), b.numpy(), zero.numpy())
    assert np.array_equal(found, expected.numpy())
    empty = torch.zeros((2, 0), dtype=torch.int64)
    assert torch.equal(tg.torch.sage_conv(x, empty, w, b, zero), torch.zeros(3, 1))


def freed(room=0, dtype=torch.float32):
    tensor = torch.randn(6, 4).to(dtype)
    tensor.untyped_storage().resize_(room)
    return tensor


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.randn(6, 4)


MEMORY = (
    r"x: expected (96|192) bytes of memory for its shape \(6, 4\), found (0|16|88): its storage was freed"
)
WITHOUT = "x: expected a tensor with memory of its own, found a {} without"
UNREADABLE = {
    "freed": (freed, MEMORY),
    "freed-double": (lambda: freed(dtype=torch.float64), MEMORY),
    "shrunk": (lambda: freed(16), MEMORY),
    "shrunk-by-two": (lambda: freed(88), MEMORY),
    "fake": (fake, WITHOUT.format("FakeTensor")),
    "lazy": (torch.nn.parameter.UninitializedParameter, WITHOUT.format("UninitializedParameter")),
    "masked": (
        lambda: torch.masked.masked_tensor(torch.randn(6, 4), torch.ones(6, 4).bool()),
        WITHOUT.format("MaskedTensor"),
    ),
    "quantised": (
        lambda: torch.quantize_per_tensor(torch.randn(6, 4), 0.1, 0, torch.qint8),
        r"x: expected plain numbers, found a quantised tensor; pass x\.dequantize\(\)",
    ),
    "nested": (
        lambda: torch.nested.nested_tensor([torch.randn(2, 4)] * 2),
        "x: .*dense.* found a nested one; ",
    ),
    "csr": (lambda: torch.randn(6, 4).to_sparse_csr(), r"dense.* found torch.sparse_csr; pass x\.to_dense"),
    "mkldnn": (lambda: torch.randn(6, 4).to_mkldnn(), r"dense.* found torch._mkldnn; pass x\.to_dense"),
    "bits": (
        lambda: torch.zeros(6, 4).byte().view(torch.bits8),
        "x: .* NumPy has, found torch.bits8; convert",
    ),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_tensors_without_readable_memory_are_refused(what):
    make, told = UNREADABLE[what]
    w = torch.randn(3, 4)
    with pytest.raises(tg.errors.ConfigError, match=told):
        tg.torch.linear(make(), w, None)


def test_memory_freed_after_forward_and_parts_that_are_left():
    x, w = torch.randn(6, 4).double(), torch.randn(3, 4, requires_grad=True)  # float32 is read in place:
    y = tg.torch.linear(x, w, None)  # PyTorch itself then refuses to resize it
    x.untyped_storage().resize_(0)
    with pytest.raises(tg.errors.ConfigError, match=MEMORY):
        y.sum().backward()
    x = torch.randn(6, 4)
    part, rest = x[:2], x[2:].T
    x.untyped_storage().resize_(4 * 2 * 4)
    assert np.array_equal(bridge.as_array("x", part), part.numpy())
    refuses(lambda: bridge.as_array("x", rest), tg.errors.ConfigError, "96 bytes", "32")
    assert bridge.as_array("x", freed()[:0]).shape == (0, 4)
    scores, runtimes = torch.zeros(6), torch.arange(6)
    runtimes.untyped_storage().resize_(0)
    refuses(lambda: tg.torch.list_mle(scores, runtimes), tg.errors.ConfigError, "runtimes", "48 bytes")


def test_views_that_stand_for_other_numbers_are_resolved():
    z = torch.complex(torch.randn(6, 4), torch.randn(6, 4))
    negative = z.conj().imag
    assert negative.is_neg() and np.array_equal(bridge.as_array("x", negative), -z.imag.numpy())
    assert not bridge.as_array("x", torch._efficientzerotensor((6, 4))).any()
    refuses(lambda: tg.torch.linear(z.conj(), torch.randn(3, 4), None), tg.errors.ShapeError, "complex64")
    leaf = torch.randn(6, 4, requires_grad=True)
    tg.torch.linear(leaf[1:3], torch.ones(3, 4), None).sum().backward()
    assert torch.equal(leaf.grad, torch.tensor([0.0, 3, 3, 0, 0, 0])[:, None].expand(6, 4))


def test_transforms_and_gradients_without_a_rule_are_refused():
    x, w, scores = torch.randn(6, 4), torch.randn(3, 4), torch.randn(5, requires_grad=True)
    many, func = torch.randn(2, 6, 4), torch.func
    for call, *names in (
        (lambda: torch.vmap(lambda x: tg.torch.linear(x, w, None))(many), "torch.vmap"),
        (lambda: torch.vmap(lambda s: tg.torch.mse(s, torch.zeros(6)))(many[..., 0]), "torch.vmap"),
        (lambda: func.jvp(lambda x: tg.torch.linear(x, w, None), (x,), (x,)), "forward mode"),
        (lambda: torch.vmap(lambda x: bridge.as_array("x", x))(many[..., 0]), "x:", "memory"),
    ):
        refuses(call, tg.errors.ConfigError, *names)
    wrong = torch.rand(5, requires_grad=True)
    for arguments in ({"values": wrong}, {"values": torch.rand(5), "weights": wrong}):
        names = f"mse: {list(arguments)[-1]}", f"{list(arguments)[-1]}.detach()"
        refuses(lambda: tg.torch.mse(scores, **arguments), tg.errors.ConfigError, *names)
        with torch.no_grad():
            tg.torch.mse(scores, **arguments)
    loss = tg.torch.list_mle(scores, torch.arange(5))
    (first,) = torch.autograd.grad(loss, scores, create_graph=True)
    refuses(first.sum().backward, tg.errors.ConfigError, "tg.torch.list_mle", "second derivative")


# ---- threads ----


def test_kernels_run_without_the_gil():
    tg.set_num_threads(1)
    x, w = torch.randn(3000, 800, requires_grad=True), torch.randn(800, 800)
    scores, runtimes = torch.randn(20000, requires_grad=True), torch.randperm(20000)
    y = tg.torch.linear(x, w, None)
    dy = torch.ones_like(y)
    for call in (
        lambda: [tg.torch.linear(x, w, None)],
        lambda: [y.backward(dy, retain_graph=True)],
        lambda: [tg.torch.lambda_rank(scores[:3000], runtimes[:3000])],
    ):
        begun, done, turns = threading.Event(), threading.Event(), 0

        def work():
            begun.set()
            for _ in range(5):
                call()
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait()
        while not done.is_set():  # each turn takes the GIL, which a kernel that held it would not give
            turns += 1
            time.sleep(1e-3)
        thread.join()
        assert turns > 20, turns


def test_both_pools_of_threads_in_turn_give_the_same_bits():
    """Ours and PyTorch's own; then several Python threads, each with its part of both."""
    torch.manual_seed(0)
    x, w, b = torch.randn(2000, 64), torch.randn(64, 64), torch.randn(64)

    def work(_=None):
        leaf = x.clone().requires_grad_()
        h = tg.torch.linear(leaf, w, b, act="gelu")
        h = tg.torch.linear(torch.sigmoid(fn.linear(h, w)), w, b)
        tg.torch.list_mle(h.sum(1), torch.arange(2000)).backward()
        return leaf.grad.numpy().tobytes()

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        results = set()
        for threads in (1, 2, 3):
            tg.set_num_threads(threads)
            results |= {work() for _ in range(3)}
            assert tg.get_num_threads() == threads and torch.get_num_threads() == 2
        with ThreadPoolExecutor(4) as pool:
            results |= set(pool.map(work, range(8)))
        assert len(results) == 1
    finally:
        torch.set_num_threads(before)


def test_transforms_of_torch_func():
    runtimes = torch.arange(5)
    gradient = torch.func.grad(lambda s: tg.torch.list_mle(s, torch.arange(5)))(torch.zeros(5))
    leaf = torch.zeros(5, requires_grad=True)
    tg.torch.list_mle(leaf, runtimes).backward()
    assert torch.equal(gradient, leaf.grad)
    x = torch.func.grad(lambda x: tg.torch.linear(x, torch.ones(2, 3), None).sum())(torch.zeros(4, 3))
    assert torch.equal(x, torch.full((4, 3), 2.0))
