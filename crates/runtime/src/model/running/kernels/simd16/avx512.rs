//! Vectors of sixteen numbers in an AVX-512 register, with its products of bytes (VNNI).
//!
//! No closures here, nor iterators over vectors: they lack the instructions of the function that
//! they are inlined into.

use super::operations::{LANES16, Simd16, scale_and_inverse};
use crate::exp::exp_parts as exp;
use half::f16;
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
    const TILE_ROWS: &'static [usize] = &[1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Avx512(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Avx512(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_half(from: *const f16) -> Self {
        Avx512(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
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

    type Eight = crate::model::running::kernels::simd8::Avx2;
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

    // The shifts are by constants once loops are unrolled.
    #[inline(always)]
    unsafe fn field(b: Self::Bytes, from: usize, count: u32, to: usize) -> Self::Bytes {
        unsafe {
            let moved = if from < to {
                _mm512_sll_epi16(b, _mm_cvtsi32_si128((to - from) as i32))
            } else {
                _mm512_srl_epi16(b, _mm_cvtsi32_si128((from - to) as i32))
            };
            _mm512_and_si512(moved, _mm512_set1_epi8((((1 << count) - 1) << to) as i8))
        }
    }

    #[inline(always)]
    unsafe fn lookup(b: Self::Bytes, table: &[u8; 16]) -> Self::Bytes {
        unsafe {
            let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(table, b)
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
    unsafe fn dot_bytes(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers {
        unsafe { Self::dot(sums, w, x) }
    }

    #[inline(always)]
    unsafe fn zero_of_bytes(correction: i32) -> Self::Integers {
        unsafe { Self::integers(correction) }
    }

    #[inline(always)]
    unsafe fn floats(x: Self::Integers) -> Self {
        Avx512(unsafe { _mm512_cvtepi32_ps(x) })
    }

    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> Self {
        Avx512(unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) })
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        Avx512(unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) })
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
}
