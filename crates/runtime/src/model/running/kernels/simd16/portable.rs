//! Vectors of sixteen numbers as plain arrays: for other processors, and as the reference in tests.

use super::operations::{LANES16, Simd16, scale_and_inverse};
use crate::exp::exp;
use half::f16;

/// Needs no special instructions. `FMA` is true if it fuses the multiply-add, which is slow where
/// no instruction does it.
#[derive(Clone, Copy)]
pub(in super::super) struct Portable<const FMA: bool>([f32; LANES16]);

// SAFETY of the bodies: they need only the promises that the trait requires.
#[allow(clippy::undocumented_unsafe_blocks)]
impl<const FMA: bool> Simd16 for Portable<FMA> {
    const HAS_32_REGISTERS: bool = false;
    const TILE_ROWS: &'static [usize] = &[1, 4];

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Portable([x; LANES16])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        Portable(unsafe { from.cast::<[f32; LANES16]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_half(from: *const f16) -> Self {
        // Not the conversion that looks for an instruction: this kind needs none.
        Portable(
            unsafe { from.cast::<[f16; LANES16]>().read_unaligned() }
                .map(|x| if FMA { x.to_f32() } else { x.to_f32_const() }),
        )
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<[f32; LANES16]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        Portable(std::array::from_fn(|i| self.0[i] + b.0[i]))
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        Portable(std::array::from_fn(|i| self.0[i] / b.0[i]))
    }

    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        Portable(std::array::from_fn(|i| if b.0[i] > self.0[i] { b.0[i] } else { self.0[i] }))
    }

    #[inline(always)]
    unsafe fn exp(self) -> Self {
        Portable(self.0.map(exp))
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        Portable(std::array::from_fn(|i| self.0[i] * b.0[i]))
    }

    #[inline(always)]
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self {
        let mut v = self.0;
        for (v, (a, b)) in v.iter_mut().zip(a.0.iter().zip(b.0)) {
            *v = if FMA { a.mul_add(b, *v) } else { a * b + *v };
        }
        Portable(v)
    }

    type Eight = crate::model::running::kernels::simd8::Portable<FMA>;
    type Integers = [i32; LANES16];
    type Bytes = [u8; 4 * LANES16];

    #[inline(always)]
    unsafe fn integers(x: i32) -> Self::Integers {
        [x; LANES16]
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> Self::Bytes {
        unsafe { from.cast::<Self::Bytes>().read() }
    }

    #[inline(always)]
    unsafe fn field(b: Self::Bytes, from: usize, count: u32, to: usize) -> Self::Bytes {
        b.map(|b| (b >> from & ((1 << count) - 1)) << to)
    }

    #[inline(always)]
    unsafe fn lookup(b: Self::Bytes, table: &[u8; 16]) -> Self::Bytes {
        b.map(|b| table[usize::from(b & 15)])
    }

    #[inline(always)]
    unsafe fn either(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        std::array::from_fn(|i| a[i] | b[i])
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers {
        let (mut sums, x) = (sums, x.to_ne_bytes());
        for (sum, w) in sums.iter_mut().zip(w.chunks_exact(4)) {
            for (w, x) in w.iter().zip(x) {
                *sum += i32::from(*w) * i32::from(x.cast_signed());
            }
        }
        sums
    }

    #[inline(always)]
    unsafe fn dot_bytes(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers {
        unsafe { Self::dot(sums, w, x) }
    }

    #[inline(always)]
    unsafe fn zero_of_bytes(correction: i32) -> Self::Integers {
        [correction; LANES16]
    }

    #[inline(always)]
    unsafe fn floats(x: Self::Integers) -> Self {
        Portable(x.map(|x| x as f32))
    }

    #[inline(always)]
    unsafe fn load_u8(from: *const u8) -> Self {
        Portable(unsafe { from.cast::<[u8; LANES16]>().read() }.map(f32::from))
    }

    #[inline(always)]
    unsafe fn load_i8(from: *const i8) -> Self {
        Portable(unsafe { from.cast::<[i8; LANES16]>().read() }.map(f32::from))
    }

    #[inline(always)]
    unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32) {
        let (x, out) = unsafe { (x.cast::<[f32; 32]>().read_unaligned(), &mut *out.cast::<[i8; 32]>()) };
        let (there, back) = scale_and_inverse(x.iter().fold(0, |most, v| most.max(v.abs().to_bits())));
        let mut sum = 0;
        for (out, x) in out.iter_mut().zip(x) {
            *out = (x * there).round_ties_even() as i8;
            sum += i32::from(*out);
        }
        (back, sum)
    }
}
