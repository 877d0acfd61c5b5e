//! Vectors of sixteen numbers in two AVX2 registers.
//!
//! No closures here, nor iterators over vectors: they lack the instructions of the function that
//! they are inlined into.

use super::operations::{LANES16, Simd16, scale_and_inverse};
use crate::exp::exp_parts as exp;
use half::f16;
use std::arch::x86_64::*;

/// Needs AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx2([__m256; 2]);

const _: () = assert!(size_of::<Avx2>() == LANES16 * size_of::<f32>());

// SAFETY of the bodies: they need only the promises that the trait requires.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd16 for Avx2 {
    const HAS_32_REGISTERS: bool = false;
    const TILE_ROWS: &'static [usize] = &[1, 2, 3, 4, 6];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Avx2(unsafe { [_mm256_set1_ps(x); 2] })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Avx2(unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] })
    }

    #[inline(always)]
    unsafe fn load_half(from: *const f16) -> Self {
        unsafe {
            let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(8).cast()));
            Avx2([_mm256_cvtph_ps(low), _mm256_cvtph_ps(high)])
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe {
            _mm256_storeu_ps(to, self.0[0]);
            _mm256_storeu_ps(to.add(8), self.0[1]);
        }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        Avx2(unsafe { [_mm256_add_ps(self.0[0], b.0[0]), _mm256_add_ps(self.0[1], b.0[1])] })
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        Avx2(unsafe { [_mm256_div_ps(self.0[0], b.0[0]), _mm256_div_ps(self.0[1], b.0[1])] })
    }

    // The instruction returns its second operand if one is NaN.
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        Avx2(unsafe { [_mm256_max_ps(b.0[0], self.0[0]), _mm256_max_ps(b.0[1], self.0[1])] })
    }

    #[inline(always)]
    unsafe fn exp(self) -> Self {
        Avx2(unsafe { [exp_of(self.0[0]), exp_of(self.0[1])] })
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        Avx2(unsafe { [_mm256_mul_ps(self.0[0], b.0[0]), _mm256_mul_ps(self.0[1], b.0[1])] })
    }

    #[inline(always)]
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
        Avx2(unsafe {
            [_mm256_fmadd_ps(a.0[0], b.0[0], self.0[0]), _mm256_fmadd_ps(a.0[1], b.0[1], self.0[1])]
        })
    }

    type Eight = crate::model::running::kernels::simd8::Avx2;
    type Integers = [__m256i; 2];
    type Bytes = [__m256i; 2];

    #[inline(always)]
    unsafe fn integers(x: i32) -> Self::Integers {
        unsafe { [_mm256_set1_epi32(x); 2] }
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Self::Bytes {
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())] }
    }

    // The shifts are by constants once loops are unrolled.
    #[inline(always)]
    unsafe fn field(b: Self::Bytes, from: usize, count: u32, to: usize) -> Self::Bytes {
        unsafe {
            let moved = if from < to {
                let by = _mm_cvtsi32_si128((to - from) as i32);
                [_mm256_sll_epi16(b[0], by), _mm256_sll_epi16(b[1], by)]
            } else {
                let by = _mm_cvtsi32_si128((from - to) as i32);
                [_mm256_srl_epi16(b[0], by), _mm256_srl_epi16(b[1], by)]
            };
            let bits = _mm256_set1_epi8((((1 << count) - 1) << to) as i8);
            [_mm256_and_si256(moved[0], bits), _mm256_and_si256(moved[1], bits)]
        }
    }

    #[inline(always)]
    unsafe fn lookup(b: Self::Bytes, table: &[u8; 16]) -> Self::Bytes {
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            [_mm256_shuffle_epi8(table, b[0]), _mm256_shuffle_epi8(table, b[1])]
        }
    }

    #[inline(always)]
    unsafe fn either(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers {
        unsafe {
            let (x, ones) = (_mm256_set1_epi32(x), _mm256_set1_epi16(1));
            // Two products are at most 2 * 63 * 128, which sixteen bits hold.
            let fours = [
                _mm256_madd_epi16(_mm256_maddubs_epi16(w[0], x), ones),
                _mm256_madd_epi16(_mm256_maddubs_epi16(w[1], x), ones),
            ];
            [_mm256_add_epi32(sums[0], fours[0]), _mm256_add_epi32(sums[1], fours[1])]
        }
    }

    // The weights get their sign back here. Without sign they would overflow the sixteen bits of a
    // sum of two products.
    #[inline(always)]
    unsafe fn dot_bytes(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers {
        unsafe {
            let (x, ones) = (_mm256_set1_epi32(x), _mm256_set1_epi16(1));
            let sign = _mm256_set1_epi8(i8::MIN);
            let mut out = sums;
            for half in 0..2 {
                let signed = _mm256_xor_si256(w[half], sign);
                // Two products are at most 2 * 128 * 127, which sixteen bits just hold.
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(signed), _mm256_sign_epi8(x, signed));
                out[half] = _mm256_add_epi32(sums[half], _mm256_madd_epi16(pairs, ones));
            }
            out
        }
    }

    #[inline(always)]
    unsafe fn zero_of_bytes(_: i32) -> Self::Integers {
        unsafe { Self::integers(0) }
    }

    #[inline(always)]
    unsafe fn floats(x: Self::Integers) -> Self {
        Avx2(unsafe { [_mm256_cvtepi32_ps(x[0]), _mm256_cvtepi32_ps(x[1])] })
    }

    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> Self {
        unsafe {
            let all = _mm_loadu_si128(from.cast());
            let (low, high) = (_mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(all)));
            Avx2([_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)])
        }
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        unsafe {
            let all = _mm_loadu_si128(from.cast());
            let (low, high) = (_mm256_cvtepi8_epi32(all), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(all)));
            Avx2([_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)])
        }
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const i8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from) }
    }

    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32) {
        unsafe {
            let positive = _mm256_set1_epi32(i32::MAX);
            let mut v = [_mm256_setzero_ps(); 4];
            let mut largest = _mm256_setzero_si256();
            for i in 0..4 {
                v[i] = _mm256_loadu_ps(x.add(8 * i));
                largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(v[i]), positive));
            }
            let most = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256::<1>(largest));
            let most = _mm_max_epi32(most, _mm_shuffle_epi32::<0b01_00_11_10>(most));
            let most = _mm_max_epi32(most, _mm_shuffle_epi32::<0b10_11_00_01>(most));
            let (there, back) = scale_and_inverse(_mm_cvtsi128_si32(most).cast_unsigned());
            let mut whole = [_mm256_setzero_si256(); 4];
            for i in 0..4 {
                whole[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], _mm256_set1_ps(there)));
            }
            // Packing works within halves; the permutation restores the order.
            let (a, b) = (_mm256_packs_epi32(whole[0], whole[1]), _mm256_packs_epi32(whole[2], whole[3]));
            let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
            let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), order);
            _mm256_storeu_si256(out.cast(), bytes);
            let pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
            let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            let sum = _mm_add_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256::<1>(fours));
            let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b01_00_11_10>(sum));
            let sum = _mm_add_epi32(sum, _mm_shuffle_epi32::<0b10_11_00_01>(sum));
            (back, _mm_cvtsi128_si32(sum))
        }
    }
}

// The operations of `exp::exp`, one by one: the compiler does not vectorise them.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn exp_of(x: __m256) -> __m256 {
    // These instructions return their second operand if one is NaN.
    let clamped = _mm256_min_ps(_mm256_set1_ps(88.0), x);
    let clamped = _mm256_max_ps(_mm256_set1_ps(-87.0), clamped);
    let round = _mm256_set1_ps(exp::ROUND);
    let shifted = _mm256_add_ps(_mm256_mul_ps(clamped, _mm256_set1_ps(exp::LOG2_E)), round);
    let n = _mm256_sub_ps(shifted, round);
    let r = _mm256_sub_ps(clamped, _mm256_mul_ps(n, _mm256_set1_ps(exp::LN2_HIGH)));
    let r = _mm256_sub_ps(r, _mm256_mul_ps(n, _mm256_set1_ps(exp::LN2_LOW)));
    let mut p = _mm256_set1_ps(exp::TERMS[0]);
    for term in &exp::TERMS[1..] {
        p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(*term));
    }
    let p = _mm256_add_ps(_mm256_mul_ps(_mm256_mul_ps(p, r), r), r);
    let p = _mm256_add_ps(p, _mm256_set1_ps(1.0));
    let bits = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(exp::BIAS));
    let power = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(bits));
    let under = _mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(-87.0));
    _mm256_andnot_ps(under, _mm256_mul_ps(p, power))
}
