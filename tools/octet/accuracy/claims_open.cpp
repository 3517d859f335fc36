// Rows that are not about accuracy on the CPU.
#include "accuracy/claim_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace octet::tool {

void add_open_claims(ClaimList& list) {
  constexpr const char* kGpu = "GPU kernels";
  list.open(7, "INT-FlashAttention speed against FP16, 1k – 16k",
            "31 / 52 / 66 / 72 / 73 % less time (RTX 4090)", kGpu);
  list.open(8, "INT8 about as fast as FP8", "ratio 1", kGpu);
  list.open(12, "Less memory traffic and energy", "no figures", kGpu);
  list.open(13, "Made for Ampere (A100)", "all figures from an RTX 4090", "a kernel for sm80");
  list.open(20, "ShiftExp2: division against multiply and shift (Figure 6)", "much slower, no figure", kGpu);
  list.open(23, "QFlash latency A1 – A7", "1.09 – 1.23 times FlashAttention-2; I-ViT 6.73 / 8.69 times",
            kGpu);
  list.open(24, "Tensor-core utilisation A2 / A7", "8.00 / 2.55 %", kGpu);
  list.open(25, "Energy A2, batch 8", "18.8 % below FlashAttention-2", kGpu);
  list.open(32, "Kernel ablation V0 – V4", "+41.4 / 46.0 / 61.0 / 62.4 %", kGpu);
  list.open(33, "Top-1 of ViT, DeiT, Swin", "within 0.1 – 1.7 points of FP32, some above it",
            "ImageNet, which is not at hand; docs/models.md has a stand-in");
  list.open(35, "\"Integer-only kernel\"", "its final division is in floating point", kGpu);
  list.open(37, "Warp specialisation", "661 against 582 and 570 TFLOPS", kGpu);
  list.open(38, "Pingpong", "570 to 620 – 640 TFLOPS", kGpu);
  list.open(39, "Two- and three-stage pipelining", "as row 37", kGpu);
  list.open(40, "FlashAttention-3 FP16 forward", "up to 497 / 648 / 756 TFLOPS (d = 64 / 128 / 256)", kGpu);
  list.open(41, "FlashAttention-3 backward", "474 / 561 TFLOPS", kGpu);
  list.open(42, "FlashAttention-3 FP8 forward, d = 256", "1171, causal 1024 TFLOPS", kGpu);
  list.open(43, "FlashAttention-3 FP8, d = 64 / 128", "not in the text", kGpu);
  list.open(44, "75 % utilisation, 1.5 – 2.0 times FlashAttention-2, cuDNN reached",
            "its figures: 1.09 – 2.32 times", kGpu);
  list.open(45, "3 – 16 times standard attention", "out of memory at 16k", kGpu);
  list.open(46, "Transpose of V and register permutation in the kernel", "no shuffles", kGpu);
  list.open(52, "Persistent FP8 kernel (future work)", "FP8 causal above cuDNN", kGpu);
  list.open(53, "Colfax FP8 speed", "1028.7 / 1057.5 TFLOPS, d = 256", kGpu);
  list.open(56, "Colfax's byte permutes and shuffles", "exact", kGpu);
  list.open(57, "Colfax's tiles and stages", "a table", kGpu);
  list.open(58, "V transposed offline", "not counted", kGpu);
  list.open(61, "Tables in a kernel", "one cycle a look-up, below 5 % of the kernel", kGpu);
  list.open(64, "QAttn's mixed kernel", "latency A1 – A7", "GPU kernels (its SQNR: row 27)");
  list.open(65, "jundaf2's INT8 FMHA as prior work", "\"first\" fully INT8 FlashAttention", "a citation");
  list.open(66, "INT8 forward, FP16 backward in training", "no figures", "a backward pass");
  list.open(67, "1.8 times end to end on Llama", "no evidence",
            "Llama on a GPU; docs/models.md has encoders on a CPU");
}

}  // namespace octet::tool
