// OCTET_HD marks the functions that also compile as CUDA device code: all of src/numerics and the scalar
// lanes. OCTET_HOST marks those beside them that only the host runs. On the host both are always inlined: a
// kernel is compiled once for each instruction set, and an out-of-line copy would be one weak symbol for all
// of them, of which the linker keeps any.
#pragma once

#define OCTET_HOST inline __attribute__((always_inline))
#if defined(__CUDACC__)
#define OCTET_HD __host__ __device__ __forceinline__
#else
#define OCTET_HD OCTET_HOST
#endif
