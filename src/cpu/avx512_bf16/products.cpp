#include "cpu/avx512_bf16/products.h"

#include "cpu/avx512/tiles.inl"

namespace octet::cpu::avx512 {
namespace {

#define OCTET_PAIRS(COLUMN, SUM) "vdpbf16ps %%zmm" COLUMN ", %%zmm28, %%zmm" SUM "\n\t"

OCTET_TILE_6X4(tile_bf16, OCTET_PAIRS)
OCTET_TILES_TO_OUT(tile_bf16_and_fold, OCTET_PAIRS, OCTET_AS_IT_IS)

struct Pairs {
  static constexpr bool kAnyOrder = false;
  static __m512i multiply(__m512i sum, __m512i a, __m512i b) {
    return _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum), reinterpret_cast<__m512bh>(a),
                                                reinterpret_cast<__m512bh>(b)));
  }
};

}  // namespace

void multiply_bf16(const Tile& t, std::int64_t columns) { all<Pairs>(tile_bf16, t, columns); }
std::int64_t multiply_bf16_and_fold(const Tile& t, const TileFold& fold, std::int64_t columns) {
  return all_and_fold(tile_bf16_and_fold, t, fold, columns);
}
void multiply_few_qk_bf16(const Tile& t, std::int64_t columns) { few_qk<Pairs>(t, columns); }
void multiply_few_pv_bf16(const Tile& t, std::int64_t columns) { few_pv<Pairs>(t, columns); }

}  // namespace octet::cpu::avx512
