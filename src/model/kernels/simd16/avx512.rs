//! Vectors of sixteen numbers in an AVX-512 register, with its products of bytes (VNNI).
//!
//! No closures here, nor iterators over vectors: they lack the instructions of the function that
//! they are inlined into.

use super::{LANES16, Simd16, scale_and_inverse};
use crate::exp::exp_parts as exp;
use std::arch::x86_64::*;

/// Needs the AVX-512 instructions that [`super::run`] enables.
#[derive(Clone, Copy)]
pub(in super::super) struct Avx512(__m512);

const _: () = assert!(size_of::<Avx512>() == LANES16 * size_of::<f32>());

/// Returns a mask of the first `n` lanes, at most all.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    ((1u32 << n.min(LANES16)) - 1) as __mmask16
}

// SAFETY of the bodies: they need only the promises that the trait requires.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Simd16 for Avx512 {
    const HAS_32_REGISTERS: bool = true;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Avx512(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Avx512(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize, rest: f32) -> Self {
        Avx512(unsafe { _mm512_mask_loadu_ps(_mm512_set1_ps(rest), first(n), from) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, n: usize) {
        unsafe { _mm512_mask_storeu_ps(to, first(n), self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        Avx512(unsafe { _mm512_add_ps(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        Avx512(unsafe { _mm512_div_ps(self.0, b.0) })
    }

    // The instruction returns its second operand if one is NaN.
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        Avx512(unsafe { _mm512_max_ps(b.0, self.0) })
    }

    #[inline(always)]
    unsafe fn reduce_max(self) -> f32 {
        unsafe { _mm512_reduce_max_ps(self.0) }
    }

    // The operations of `exp::exp`, one by one: the compiler does not vectorise them.
    #[inline(always)]
    unsafe fn exp(self) -> Self {
        unsafe {
            // These instructions return their second operand if one is NaN.
            let clamped = _mm512_min_ps(_mm512_set1_ps(88.0), self.0);
            let clamped = _mm512_max_ps(_mm512_set1_ps(-87.0), clamped);
            let round = _mm512_set1_ps(exp::ROUND);
            let shifted = _mm512_add_ps(_mm512_mul_ps(clamped, _mm512_set1_ps(exp::LOG2_E)), round);
            let n = _mm512_sub_ps(shifted, round);
            let r = _mm512_sub_ps(clamped, _mm512_mul_ps(n, _mm512_set1_ps(exp::LN2_HIGH)));
            let r = _mm512_sub_ps(r, _mm512_mul_ps(n, _mm512_set1_ps(exp::LN2_LOW)));
            let mut p = _mm512_set1_ps(exp::TERMS[0]);
            for term in &exp::TERMS[1..] {
                p = _mm512_add_ps(_mm512_mul_ps(p, r), _mm512_set1_ps(*term));
            }
            let p = _mm512_add_ps(_mm512_mul_ps(_mm512_mul_ps(p, r), r), r);
            let p = _mm512_add_ps(p, _mm512_set1_ps(1.0));
            let bits = _mm512_add_epi32(_mm512_castps_si512(shifted), _mm512_set1_epi32(exp::BIAS));
            let power = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(bits));
            let under = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, _mm512_set1_ps(-87.0));
            Avx512(_mm512_mask_mul_ps(_mm512_setzero_ps(), !under, p, power))
        }
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        Avx512(unsafe { _mm512_mul_ps(self.0, b.0) })
    }

    #[inline(always)]
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
        Avx512(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
    }

    type Integers = __m512i;
    type Bytes = __m512i;

    #[inline(always)]
    unsafe fn integers(x: i32) -> Self::Integers {
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Self::Bytes {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn low(b: Self::Bytes) -> Self::Bytes {
        unsafe { _mm512_and_si512(b, _mm512_set1_epi8(0x0f)) }
    }

    #[inline(always)]
    unsafe fn high(b: Self::Bytes) -> Self::Bytes {
        unsafe { Self::low(_mm512_srli_epi16::<4>(b)) }
    }

    #[inline(always)]
    unsafe fn upper(b: Self::Bytes, k: usize) -> Self::Bytes {
        unsafe {
            let moved = match k {
                0 => _mm512_slli_epi16::<4>(b),
                1 => _mm512_slli_epi16::<2>(b),
                2 => b,
                _ => _mm512_srli_epi16::<2>(b),
            };
            _mm512_and_si512(moved, _mm512_set1_epi8(0x30))
        }
    }

    #[inline(always)]
    unsafe fn either(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers {
        unsafe { _mm512_dpbusd_epi32(sums, w, _mm512_set1_epi32(x)) }
    }

    #[inline(always)]
    unsafe fn floats(x: Self::Integers) -> Self {
        Avx512(unsafe { _mm512_cvtepi32_ps(x) })
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const i8) {
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from) }
    }

    #[inline(always)]
    unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32) {
        unsafe {
            let (a, b) = (_mm512_loadu_ps(x), _mm512_loadu_ps(x.add(16)));
            let most = _mm512_max_epi32(
                _mm512_castps_si512(_mm512_abs_ps(a)),
                _mm512_castps_si512(_mm512_abs_ps(b)),
            );
            let (there, back) = scale_and_inverse(_mm512_reduce_max_epi32(most).cast_unsigned());
            let there = _mm512_set1_ps(there);
            let a = _mm512_cvtps_epi32(_mm512_mul_ps(a, there));
            let b = _mm512_cvtps_epi32(_mm512_mul_ps(b, there));
            _mm_storeu_si128(out.cast(), _mm512_cvtepi32_epi8(a));
            _mm_storeu_si128(out.add(16).cast(), _mm512_cvtepi32_epi8(b));
            (back, _mm512_reduce_add_epi32(_mm512_add_epi32(a, b)))
        }
    }

    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    unsafe fn block_sums<const R: usize, const G: usize>(
        x: *const i8,
        less: *const i32,
        w: [*const u8; G],
    ) -> [[Self; R]; G] {
        unsafe {
            let mut sums = [[_mm512_setzero_si512(); R]; G];
            for g in 0..G {
                for r in 0..R {
                    sums[g][r] = _mm512_set1_epi32(less.add(r).read_unaligned());
                }
            }
            for four in 0..8 {
                let mut weights = [_mm512_setzero_si512(); G];
                for g in 0..G {
                    weights[g] = _mm512_loadu_si512(w[g].add(four * 4 * LANES16).cast());
                }
                for r in 0..R {
                    let all = _mm512_set1_epi32(x.add(r * 32 + 4 * four).cast::<i32>().read_unaligned());
                    for g in 0..G {
                        // Adds the four products of each lane to its sum; no step can overflow.
                        sums[g][r] = _mm512_dpbusd_epi32(sums[g][r], weights[g], all);
                    }
                }
            }
            let mut out = [[Avx512(_mm512_setzero_ps()); R]; G];
            for g in 0..G {
                for r in 0..R {
                    out[g][r] = Avx512(_mm512_cvtepi32_ps(sums[g][r]));
                }
            }
            out
        }
    }
}
