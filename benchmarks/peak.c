/* Operations per second that this machine can do at most: loops of nothing but fused multiply-adds over
 * registers. Compiled with -march=native by machine.py, which is fine here: it describes the machine it runs on.
 *
 *     peak THREADS SECONDS   prints lines "precision operations-per-second", best of 5 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

enum { CHAINS = 16, TURNS = 1 << 14 }; /* latency 4 times 2 units, or less: 16 independent chains fill them */

#ifdef __AVX512F__
typedef __m512 vf;
#elif defined(__AVX__)
typedef float vf __attribute__((vector_size(32)));
#else
typedef float vf __attribute__((vector_size(16)));
#endif

/* `body` is one operation of chain i. The empty assembly makes the compiler believe that the chains begin with
 * different values, or it would compute only one of them, and that the results matter. */
#define LOOP(type, body)                                                                                     \
    type acc[CHAINS] = {0};                                                                                  \
    for (int i = 0; i < CHAINS; i++) __asm__ volatile("" : "+v"(acc[i]));                                    \
    for (int turn = 0; turn < TURNS; turn++) {                                                               \
        _Pragma("GCC unroll 16") for (int i = 0; i < CHAINS; i++) acc[i] = body;                             \
    }                                                                                                        \
    for (int i = 0; i < CHAINS; i++) __asm__ volatile("" : : "v"(acc[i]));                                   \
    return (double)TURNS * CHAINS

static double loop_f32(void) {
    vf a = {0}, b = {0};
    __asm__ volatile("" : "+v"(a), "+v"(b));
    LOOP(vf, acc[i] + a * b) * 2 * (sizeof(vf) / sizeof(float));
}

#ifdef __AVX512BF16__
static double loop_bf16(void) {
    __m512bh a = (__m512bh)_mm512_setzero_si512(), b = a;
    __asm__ volatile("" : "+v"(a), "+v"(b));
    LOOP(__m512, _mm512_dpbf16_ps(acc[i], a, b)) * 2 * 32;
}
#endif

#ifdef __AVX512VNNI__
static double loop_int8(void) {
    __m512i a = _mm512_setzero_si512(), b = a;
    __asm__ volatile("" : "+v"(a), "+v"(b));
    LOOP(__m512i, _mm512_dpbusd_epi32(acc[i], a, b)) * 2 * 64;
}
#endif

static void measure(const char *name, double (*loop)(void), int threads, double seconds) {
    double best = 0;
    for (int round = 0; round < 5; round++) {
        double start = omp_get_wtime(), done = 0;
#pragma omp parallel num_threads(threads) reduction(+ : done)
        while (omp_get_wtime() - start < seconds) done += loop();
        double rate = done / (omp_get_wtime() - start);
        if (rate > best) best = rate;
    }
    printf("%s %.6g\n", name, best);
}

int main(int count, char **words) {
    int threads = count > 1 ? atoi(words[1]) : 1;
    double seconds = count > 2 ? atof(words[2]) : 0.2;
    measure("f32", loop_f32, threads, seconds);
#ifdef __AVX512BF16__
    measure("bf16", loop_bf16, threads, seconds);
#endif
#ifdef __AVX512VNNI__
    measure("int8", loop_int8, threads, seconds);
#endif
    return 0;
}
