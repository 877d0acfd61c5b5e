//! The operations on vectors of sixteen numbers that every kind of vector has.

use half::f16;

use crate::model::running::kernels::simd8::Simd8;

/// Number of lanes.
pub(crate) const LANES16: usize = 16;

/// A vector of [`LANES16`] numbers.
pub(crate) trait Simd16: Copy {
    /// True if the registers hold 24 vectors of sums and their operands; otherwise they hold
    /// twelve.
    const HAS_32_REGISTERS: bool;
    /// The numbers of rows that a tile of an integer product may have, from 1 on. Each up to
    /// eight is compiled for each format of weights, and the others for those of bytes.
    const TILE_ROWS: &'static [usize];
    /// # Safety
    /// For all functions: the processor must have the instructions that the implementation names.
    /// Pointers must be valid for the elements that are read or written (all lanes, unless stated
    /// otherwise). They need no alignment.
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    /// Loads numbers of half precision.
    unsafe fn load_half(from: *const f16) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Loads the first `n` lanes, at most all, and puts `rest` in the others.
    #[inline(always)]
    unsafe fn load_part(from: *const f32, n: usize, rest: f32) -> Self {
        let mut v = [rest; LANES16];
        // SAFETY: the caller promises n elements; and a whole array.
        unsafe {
            if n >= LANES16 {
                return Self::load(from);
            }
            std::ptr::copy_nonoverlapping(from, v.as_mut_ptr(), n);
            Self::load(v.as_ptr())
        }
    }
    /// Stores the first `n` lanes, at most all.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut f32, n: usize) {
        let mut v = [0.0; LANES16];
        // SAFETY: a whole array; and the caller promises room for n elements.
        unsafe {
            if n >= LANES16 {
                return self.store(to);
            }
            self.store(v.as_mut_ptr());
            std::ptr::copy_nonoverlapping(v.as_ptr(), to, n);
        }
    }
    unsafe fn add(self, b: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    unsafe fn div(self, b: Self) -> Self;
    /// Returns the larger of each two, and that of `self` where one of them is NaN.
    unsafe fn max(self, b: Self) -> Self;
    /// Returns [`exp`](crate::exp::exp) of each lane, with the same bits.
    unsafe fn exp(self) -> Self;
    /// Returns the largest lane; if any is NaN, the result may be any lane.
    #[inline(always)]
    unsafe fn reduce_max(self) -> f32 {
        // SAFETY: by the caller's promise.
        unsafe { self.reduce(|a, b| if b > a { b } else { a }) }
    }
    /// Returns the sum of the lanes: adds the upper half to the lower half until one lane is left.
    #[inline(always)]
    unsafe fn reduce_sum(self) -> f32 {
        // SAFETY: by the caller's promise.
        unsafe { self.reduce(|a, b| a + b) }
    }
    /// Combines the upper half with the lower half until one lane is left.
    #[inline(always)]
    unsafe fn reduce(self, put: impl Fn(f32, f32) -> f32) -> f32 {
        let mut v = [0.0; LANES16];
        // SAFETY: a whole array.
        unsafe { self.store(v.as_mut_ptr()) };
        let mut half = LANES16 / 2;
        while half > 0 {
            for i in 0..half {
                v[i] = put(v[i], v[i + half]);
            }
            half /= 2;
        }
        v[0]
    }
    /// Returns `a * b + self`.
    unsafe fn multiply_add(self, a: Self, b: Self) -> Self;
    /// Half of the lanes, for what is defined as sums of eight.
    type Eight: Simd8;
    /// Sixteen integers.
    type Integers: Copy;
    /// 64 bytes.
    type Bytes: Copy;
    unsafe fn integers(x: i32) -> Self::Integers;
    unsafe fn bytes(from: *const u8) -> Self::Bytes;
    /// Returns the `count` bits of each byte from bit `from` on, as bits from `to` on.
    unsafe fn field(b: Self::Bytes, from: usize, count: u32, to: usize) -> Self::Bytes;
    /// Returns the entry of the table for each byte, which is below 16.
    unsafe fn lookup(b: Self::Bytes, table: &[u8; 16]) -> Self::Bytes;
    unsafe fn either(a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;
    /// Adds to each integer the products of its four bytes of `w`, each below 64, with the four
    /// signed bytes of `x`.
    unsafe fn dot(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers;
    /// Adds to each integer the products of its four bytes of `w`, which have 128 added to them,
    /// with the four signed bytes of `x`. The sums must begin with
    /// [`zero_of_bytes`](Self::zero_of_bytes).
    unsafe fn dot_bytes(sums: Self::Integers, w: Self::Bytes, x: i32) -> Self::Integers;
    /// Returns the start of sums for [`dot_bytes`](Self::dot_bytes). `correction` is -128 times the
    /// sum of all activations that follow.
    unsafe fn zero_of_bytes(correction: i32) -> Self::Integers;
    unsafe fn floats(x: Self::Integers) -> Self;
    /// Loads numbers of half precision.
    /// Loads bytes without sign.
    unsafe fn load_u8(from: *const u8) -> Self;
    /// Loads bytes with sign.
    unsafe fn load_i8(from: *const i8) -> Self;
    /// Prefetches the memory at the address, which need not exist, into the caches.
    #[inline(always)]
    unsafe fn prefetch(from: *const i8) {
        let _ = from;
    }
    /// Rounds 32 numbers to integers from -127 to 127, so that the largest becomes one of the two.
    /// Returns the scale of the integers and their sum. Subnormal blocks round to zero. If a number
    /// is infinite or NaN, the scale is NaN and the other results have no meaning.
    unsafe fn round_block(x: *const f32, out: *mut i8) -> (f32, i32);
}

/// The largest rounded number.
const LARGEST: f32 = i8::MAX as f32;

/// Returns the factors that round 32 numbers and that undo it. `largest` holds the bits of the
/// largest number without sign. Without signs, numbers are in the order of their bits; infinity and
/// NaN are above all others.
#[inline(always)]
pub(super) fn scale_and_inverse(largest: u32) -> (f32, f32) {
    let largest = f32::from_bits(largest);
    let inverse = LARGEST / largest;
    (
        if inverse.is_finite() { inverse } else { 0.0 },
        if largest.is_finite() { largest / LARGEST } else { f32::NAN },
    )
}
