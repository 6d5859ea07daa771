/* Matrix products of every precision over NumPy arrays: behind tpugraphs.kernels.matmul, and what tests and
   benchmarks of the kernels call. */
#include "py/pycore.h"

#include <string.h>

#include "base/arena.h"
#include "base/parallel.h"
#include "kernels/kernels.h"

enum { MOST_COLUMNS = 65536, ROWS = 240 /* at most, of a chunk of the parallel loop */ };

static int check_size(const char *what, npy_intp found, int least) {
    if (found >= least && found <= MOST_COLUMNS) return 1;
    PyErr_Format(PyExc_ValueError, "%s: expected %d..%d, got %zd", what, least, MOST_COLUMNS, found);
    return 0;
}

/* The (rows, cols) array of a result, holding the values of `add`, or anything if `add` is None. `out`: see
   tg_out_array; it may be `add` itself, which is then added to. */
static PyArrayObject *result_array(PyObject *add, PyObject *out, npy_intp rows, npy_intp cols,
                                   PyArrayObject *const *read) {
    npy_intp dims[2] = {rows, cols};
    PyArrayObject *from = NULL;
    if (add != Py_None && (from = tg_array(add, "add", NPY_FLOAT32, 2, dims, "that of the result")) == NULL)
        return NULL;
    PyArrayObject *to = tg_out_array(out, "out", NPY_FLOAT32, 2, dims, 3, read);
    if (to != NULL && from != NULL && to != from)
        memmove(TG_F32(to), TG_F32(from), (size_t)rows * (size_t)cols * sizeof(float));
    return to;
}

typedef struct operands {
    const tg_kernels *k;
    int64_t m, lda;
    int n, depth, rows_are_depth;
    const float *a, *w, *bias;
    float *c, *packed;
    int add;
} operands;

static void multiply(const operands *o) {
    if (o->rows_are_depth) o->k->pack_nn(o->n, o->depth, o->w, o->n, o->packed);
    else o->k->pack_nt(o->n, o->depth, o->w, o->depth, o->packed);
    const int threads = tg_threads(2.0 * (double)o->m * o->n * o->depth);
    int64_t step =
        (o->m / (4 * threads) + 23) / 24 * 24; /* some for every thread, and whole register tiles */
    step = step < 24 ? 24 : step > ROWS ? ROWS : step;
    const int64_t chunks = (o->m + step - 1) / step;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < chunks; i++) {
        const int64_t first = i * step, rows = o->m - first < step ? o->m - first : step;
        o->k->gemm((int)rows, o->n, o->depth, o->a + first * o->lda, o->lda, o->packed, o->c + first * o->n,
                   o->n, o->bias, o->add);
    }
}

static PyObject *product(PyObject *self, PyObject *args) {
    PyObject *a_, *w_, *bias_ = Py_None, *add_ = Py_None, *out = Py_None;
    operands o = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO&|OOpO", &a_, &w_, tg_take_kernels, &o.k, &bias_, &add_,
                          &o.rows_are_depth, &out))
        return NULL;
    npy_intp a_dims[2] = {-1, -1}, w_dims[2] = {-1, -1};
    PyArrayObject *a = tg_array(a_, "a", NPY_FLOAT32, 2, a_dims, "(M, K or more)"), *w, *bias = NULL;
    if (a == NULL) return NULL;
    w = tg_array(w_, "w", NPY_FLOAT32, 2, w_dims, o.rows_are_depth ? "(K, N)" : "(N, K)");
    if (w == NULL) return NULL;
    npy_intp n = w_dims[o.rows_are_depth ? 1 : 0], depth = w_dims[o.rows_are_depth ? 0 : 1];
    if (!check_size("N", n, 1) || !check_size("K", depth, 0)) return NULL;
    if (a_dims[1] < depth)
        return PyErr_Format(PyExc_ValueError, "a: expected at least K = %zd column%s, got %zd", depth,
                            TG_S(depth), a_dims[1]);
    if (bias_ != Py_None) {
        if ((bias = tg_array(bias_, "bias", NPY_FLOAT32, 1, &n, "(N,)")) == NULL) return NULL;
        o.bias = TG_F32(bias);
    }
    PyArrayObject *c = result_array(add_, out, a_dims[0], n, (PyArrayObject *[]){a, w, bias});
    if (c == NULL) return NULL;
    o.m = a_dims[0], o.lda = a_dims[1], o.n = (int)n, o.depth = (int)depth, o.add = add_ != Py_None;
    o.a = TG_F32(a), o.w = TG_F32(w), o.c = TG_F32(c);
    o.packed = tg_aligned_alloc((size_t)(tg_packed(o.k, o.n, o.depth) + 1) * sizeof(float));
    if (o.packed == NULL) {
        Py_DECREF(c);
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    multiply(&o);
    tg_aligned_free(o.packed);
    Py_END_ALLOW_THREADS
    return (PyObject *)c;
}

static PyObject *product_tn(PyObject *self, PyObject *args) {
    PyObject *a_, *b_, *add_, *out = Py_None;
    const tg_kernels *k;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOO&O|O", &a_, &b_, tg_take_kernels, &k, &add_, &out)) return NULL;
    npy_intp a_dims[2] = {-1, -1}, b_dims[2] = {-1, -1};
    PyArrayObject *a = tg_array(a_, "a", NPY_FLOAT32, 2, a_dims, "(R, M)"), *b;
    if (a == NULL) return NULL;
    b_dims[0] = a_dims[0];
    if ((b = tg_array(b_, "b", NPY_FLOAT32, 2, b_dims, "(R, N)")) == NULL) return NULL;
    if (!check_size("R", a_dims[0], 1) || !check_size("M", a_dims[1], 1) || !check_size("N", b_dims[1], 1))
        return NULL;
    PyArrayObject *c = result_array(add_, out, a_dims[1], b_dims[1], (PyArrayObject *[]){a, b, NULL});
    if (c == NULL) return NULL;
    if (add_ == Py_None) memset(TG_F32(c), 0, (size_t)a_dims[1] * (size_t)b_dims[1] * sizeof(float));
    Py_BEGIN_ALLOW_THREADS
    k->gemm_tn((int)a_dims[0], (int)a_dims[1], (int)b_dims[1], TG_F32(a), a_dims[1], TG_F32(b), b_dims[1],
               TG_F32(c), b_dims[1]);
    Py_END_ALLOW_THREADS
    return (PyObject *)c;
}

PyMethodDef tg_product_methods[] = {
    {"product", product, METH_VARARGS,
     PyDoc_STR(
         "(a (M, L), w (N, K) or with nn (K, N), precision, bias=None, add=None, nn=False, out=None) -> "
         "(M, N): add + a[:, :K] w^T + bias.")},
    {"product_tn", product_tn, METH_VARARGS,
     PyDoc_STR(
         "(a (R, M), b (R, N), precision, add or None, out=None) -> (M, N): add + a^T b, on one thread.")},
    {NULL, NULL, 0, NULL},
};
