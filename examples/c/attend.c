/* Attention in int8 from C: plans a problem, runs it, and measures the error against exact attention.
 * Prints one line; exits with 1 where something failed or the error is larger than int8's should be. */
#include <math.h>
#include <octet/octet.h>
#include <stdio.h>
#include <stdlib.h>

enum { kBatch = 1, kHeads = 2, kTokens = 64, kDim = 32, kCount = kBatch * kHeads * kTokens * kDim };

/* A deterministic value in [-1, 1] for element i: a linear congruential generator's high bits. */
static float value_at(uint32_t i) {
  const uint32_t x = (i * 2654435761u + 12345u) * 1664525u + 1013904223u;
  return (float)(x >> 8) / 8388608.0f - 1.0f;
}

static octet_tensor view_of(float* data) {
  octet_tensor t = {.data = data, .dtype = OCTET_F32, .device = OCTET_CPU};
  const int64_t shape[4] = {kBatch, kHeads, kTokens, kDim};
  int64_t stride = 1;
  for (int a = 3; a >= 0; --a) {
    t.shape[a] = shape[a];
    t.stride[a] = stride;
    stride *= shape[a];
  }
  return t;
}

/* o = attention(q, k, v) in the scheme, causal. */
static octet_status attend(octet_scheme scheme, octet_tensor q, octet_tensor k, octet_tensor v,
                           octet_tensor o) {
  octet_attention_desc desc = {.struct_size = sizeof desc};
  octet_status status = octet_attention_desc_init(&desc, scheme, &q, &k, &v);
  if (status != OCTET_OK) return status;
  desc.mask = OCTET_MASK_CAUSAL;

  octet_plan* plan = NULL;
  status = octet_plan_create(&plan, &desc, NULL);
  if (status != OCTET_OK) return status;

  /* aligned_alloc wants a multiple of the alignment, and a plan may need nothing. */
  const size_t bytes = ((size_t)octet_plan_workspace_bytes(plan) + 64) / 64 * 64;
  octet_attention_args args = {.struct_size = sizeof args};
  args.q.codes = q, args.k.codes = k, args.v.codes = v, args.o = o;
  args.workspace = aligned_alloc(64, bytes);
  args.workspace_bytes = (int64_t)bytes;
  status = args.workspace ? octet_attend(plan, &args) : OCTET_OUT_OF_MEMORY;
  free(args.workspace);
  octet_plan_destroy(plan);
  return status;
}

int main(void) {
  static float q[kCount], k[kCount], v[kCount], o[kCount], exact[kCount];
  for (uint32_t i = 0; i < kCount; ++i) {
    q[i] = value_at(i);
    k[i] = value_at(i + kCount);
    v[i] = value_at(i + 2 * kCount);
  }
  const octet_tensor tq = view_of(q), tk = view_of(k), tv = view_of(v);
  if (attend(OCTET_SCHEME_INT8, tq, tk, tv, view_of(o)) != OCTET_OK ||
      attend(OCTET_SCHEME_EXACT, tq, tk, tv, view_of(exact)) != OCTET_OK) {
    fprintf(stderr, "attend: %s\n", octet_last_error());
    return 1;
  }
  double noise = 0, signal = 0;
  for (int i = 0; i < kCount; ++i) {
    const double difference = (double)o[i] - exact[i];
    noise += difference * difference;
    signal += (double)exact[i] * exact[i];
  }
  const double error = sqrt(noise / signal);
  printf("octet %s from C: int8 against exact, relative error %.5f\n", octet_version(), error);
  return error > 0 && error < 0.02 ? 0 : 1; /* int8 stays below 2 % on such data, and is not exact */
}
