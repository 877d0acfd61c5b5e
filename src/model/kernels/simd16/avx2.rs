//! Vectors of sixteen numbers in two AVX2 registers.
//!
//! No closures here, nor iterators over vectors: they lack the instructions of the function that
//! they are inlined into.

use super::{LANES16, Simd16, scale_and_inverse};
use crate::exp::exp_parts as exp;
use std::arch::x86_64::*;

/// Needs AVX2 and FMA.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx2([__m256; 2]);

const _: () = assert!(size_of::<Avx2>() == LANES16 * size_of::<f32>());

// SAFETY of the bodies: they need only the promises that the trait requires.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd16 for Avx2 {
    const HAS_32_REGISTERS: bool = false;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Avx2(unsafe { [_mm256_set1_ps(x); 2] })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Avx2(unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] })
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

    #[inline(always)]
    unsafe fn low(b: Self::Bytes) -> Self::Bytes {
        unsafe {
            let bits = _mm256_set1_epi8(0x0f);
            [_mm256_and_si256(b[0], bits), _mm256_and_si256(b[1], bits)]
        }
    }

    #[inline(always)]
    unsafe fn high(b: Self::Bytes) -> Self::Bytes {
        unsafe { Self::low([_mm256_srli_epi16::<4>(b[0]), _mm256_srli_epi16::<4>(b[1])]) }
    }

    #[inline(always)]
    unsafe fn upper(b: Self::Bytes, k: usize) -> Self::Bytes {
        unsafe {
            let moved = match k {
                0 => [_mm256_slli_epi16::<4>(b[0]), _mm256_slli_epi16::<4>(b[1])],
                1 => [_mm256_slli_epi16::<2>(b[0]), _mm256_slli_epi16::<2>(b[1])],
                2 => b,
                _ => [_mm256_srli_epi16::<2>(b[0]), _mm256_srli_epi16::<2>(b[1])],
            };
            let bits = _mm256_set1_epi8(0x30);
            [_mm256_and_si256(moved[0], bits), _mm256_and_si256(moved[1], bits)]
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

    #[inline(always)]
    unsafe fn floats(x: Self::Integers) -> Self {
        Avx2(unsafe { [_mm256_cvtepi32_ps(x[0]), _mm256_cvtepi32_ps(x[1])] })
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

    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn block_sums<const R: usize, const G: usize>(
        x: *const i8,
        // Unused: the weights get their sign back here. Without sign they would overflow the
        // sixteen bits of a sum of two products.
        _less: *const i32,
        w: [*const u8; G],
    ) -> [[Self; R]; G] {
        unsafe {
            let (sign, ones) = (_mm256_set1_epi8(i8::MIN), _mm256_set1_epi16(1));
            let mut sums = [[[_mm256_setzero_si256(); 2]; R]; G];
            for four in 0..8 {
                let mut weights = [[_mm256_setzero_si256(); 2]; G];
                let mut sizes = weights;
                for g in 0..G {
                    for half in 0..2 {
                        let eight = w[g].add(four * 4 * LANES16 + half * 2 * LANES16);
                        weights[g][half] = _mm256_xor_si256(_mm256_loadu_si256(eight.cast()), sign);
                        sizes[g][half] = _mm256_abs_epi8(weights[g][half]);
                    }
                }
                for r in 0..R {
                    let all = x.add(r * 32 + 4 * four).cast::<i32>().read_unaligned();
                    let all = _mm256_set1_epi32(all);
                    for g in 0..G {
                        for half in 0..2 {
                            // Two products are at most 2 * 128 * 127, which sixteen bits just hold.
                            let signed = _mm256_sign_epi8(all, weights[g][half]);
                            let pairs = _mm256_maddubs_epi16(sizes[g][half], signed);
                            let fours = _mm256_madd_epi16(pairs, ones);
                            sums[g][r][half] = _mm256_add_epi32(sums[g][r][half], fours);
                        }
                    }
                }
            }
            let mut out = [[Avx2([_mm256_setzero_ps(); 2]); R]; G];
            for g in 0..G {
                for r in 0..R {
                    for half in 0..2 {
                        out[g][r].0[half] = _mm256_cvtepi32_ps(sums[g][r][half]);
                    }
                }
            }
            out
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
