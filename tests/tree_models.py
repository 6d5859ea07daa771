"""Models of LightGBM: small ones trained at random, and one written by hand with a split of every type."""

import numpy as np

OBJECTIVES = (
    "l2",
    "l1",
    "huber",
    "fair",
    "quantile",
    "mape",
    "poisson",
    "gamma",
    "tweedie",
    "cross_entropy",
    "binary",
)
ODD = np.array(
    [0, np.nan, np.inf, -np.inf, 1e-35, -1e-35, 1e-36, -1e-36, 2e-35, 1e-45, -0.5, -1, 3e9, 5e8], np.float32
)

SMALL = """tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=2
objective=binary sigmoid:2
feature_names=a b c
feature_infos=[0:1] [0:1] 0:3:40
tree_sizes=400 100

Tree=0
num_leaves=4
num_cat=1
split_feature=0 2 1
split_gain=5 2.5 1e-07
threshold=0.5 0 1.0000000180025095e-35
decision_type=8 1 6
left_child=1 -1 -3
right_child=2 -2 -4
leaf_value=-1.5 0.25 1e-3 3
leaf_weight=1 1 1 1
leaf_count=1 1 1 1
internal_value=0 0 0
internal_weight=0 0 0
internal_count=4 2 2
cat_boundaries=0 2
cat_threshold=5 256
is_linear=0
shrinkage=0.1


Tree=1
num_leaves=1
num_cat=0
split_feature=
split_gain=
threshold=
decision_type=
left_child=
right_child=
leaf_value=0.5
leaf_weight=
leaf_count=
internal_value=
internal_weight=
internal_count=
is_linear=0
shrinkage=1


end of trees

feature_importances:
a=5
"""


def _table(rng, n, columns):
    """Rows (n, F) of numbers, small whole numbers, categories and many zeros; and which columns are categories."""
    kinds = rng.integers(0, 4, columns)
    x = rng.normal(size=(n, columns))
    for f, kind in enumerate(kinds):
        if kind == 1:
            x[:, f] = rng.integers(0, 6, n)
        elif kind == 2:
            x[:, f] = rng.integers(0, 70, n)
        elif kind == 3:
            x[:, f] *= rng.random(n) < 0.4
    x = x.astype(np.float32)
    if rng.random() < 0.5:
        x[rng.random(x.shape) < 0.2] = np.nan
    if rng.random() < 0.2:
        x[:, kinds != 2] *= np.float32(10.0 ** rng.integers(-37, 30))
    return x, np.flatnonzero(kinds == 2).tolist()


def _target(rng, x, objective):
    y = rng.random(len(x)) + np.nan_to_num(x[:, 0] > 0)
    if objective == "binary":
        return (y > np.median(y)).astype(float)
    return np.clip(y, 0, 1) if objective == "cross_entropy" else y + 0.1


def random_model(seed):
    """A booster of LightGBM with random options, and rows (n, F) to predict, odd numbers among them."""
    import lightgbm

    rng = np.random.default_rng(seed)
    x, categories = _table(rng, int(rng.integers(2, 120)), int(rng.integers(1, 9)))
    objective, kind = (
        rng.choice(OBJECTIVES),
        rng.choice(["gbdt", "dart", "goss", "rf"], p=[0.55, 0.15, 0.15, 0.15]),
    )
    options = {
        "objective": objective, "boosting": "gbdt" if kind == "goss" else kind, "seed": seed, "verbosity": -1,
        "num_threads": 1, "deterministic": True, "num_leaves": int(rng.integers(2, 40)),
        "min_data_in_leaf": int(rng.integers(1, 12)), "min_data_in_bin": 1, "feature_pre_filter": False,
        "learning_rate": float(rng.choice([0.05, 0.1, 0.5, 1.0])), "sigmoid": float(rng.choice([0.5, 1, 2])),
        "use_missing": bool(rng.random() < 0.8), "zero_as_missing": bool(rng.random() < 0.4),
        "boost_from_average": bool(rng.random() < 0.7), "extra_trees": bool(rng.random() < 0.2),
        "lambda_l1": float(rng.choice([0, 0.1])), "min_data_per_group": 1, "cat_l2": 1.0,
        "cat_smooth": float(rng.choice([0, 1, 10])), "max_cat_to_onehot": int(rng.choice([1, 4, 50])),
    }  # fmt: skip
    if kind == "goss":
        options["data_sample_strategy"] = "goss"
    elif kind == "rf":
        options |= {"bagging_freq": 1, "bagging_fraction": 0.7, "feature_fraction": 0.8}
    elif rng.random() < 0.3:
        options |= {"bagging_freq": 1, "bagging_fraction": 0.6}
    named = categories if rng.random() < 0.8 else []
    data = lightgbm.Dataset(x, _target(rng, x, objective), params=options, categorical_feature=named)
    booster = lightgbm.train(options, data, num_boost_round=int(rng.integers(1, 12)))
    rows = np.concatenate([x, (10 * rng.normal(size=(40, x.shape[1]))).astype(np.float32)])
    odd = rng.random(rows.shape) < 0.2
    rows[odd] = rng.choice(ODD, int(odd.sum()))
    return booster, rows


def chain(splits):
    """The text of one tree that is as deep as it has splits."""
    n = np.arange(splits)
    right = np.where(n + 1 < splits, n + 1, -splits - 1)
    head, _, _ = SMALL.partition("Tree=0")
    lists = {
        "split_feature": n * 0, "threshold": -n, "decision_type": n * 0, "left_child": -n - 1,
        "right_child": right, "leaf_value": np.arange(splits + 1),
    }  # fmt: skip
    lines = [f"{name}={' '.join(map(str, values))}" for name, values in lists.items()]
    return "\n".join(
        [f"{head}Tree=0", f"num_leaves={splits + 1}", "num_cat=0", *lines, "", "end of trees", ""]
    )
