//! The rows that products read and write, and how the work on them is shared out.

use std::ops::Range;

use super::simd16::{LANES16, Simd16};
use crate::threads;

/// A matrix by rows, possibly with gaps between them.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a, T = f32> {
    pub data: &'a [T],
    pub rows: usize,
    pub width: usize,
    pub stride: usize,
}

impl<'a, T> Rows<'a, T> {
    pub(crate) fn new(data: &'a [T], rows: usize, width: usize) -> Self {
        Rows::strided(data, rows, width, width)
    }

    pub(crate) fn strided(data: &'a [T], rows: usize, width: usize, stride: usize) -> Self {
        assert!(rows == 0 || (rows - 1) * stride + width <= data.len(), "matrix larger than its data");
        Rows { data, rows, width, stride }
    }

    #[inline(always)]
    pub(crate) fn row(&self, i: usize) -> &'a [T] {
        &self.data[i * self.stride..i * self.stride + self.width]
    }
}

/// The destination of the results: rows at a distance of `stride`.
pub(crate) struct Out<'a> {
    pub data: &'a mut [f32],
    pub stride: usize,
}

impl Out<'_> {
    /// Returns the destination of a number of rows and columns, for several threads.
    pub(super) fn target(self, rows: usize, columns: usize) -> Target {
        assert!(rows == 0 || (rows - 1) * self.stride + columns <= self.data.len(), "a result without room");
        Target { start: self.data.as_mut_ptr(), len: self.data.len(), stride: self.stride }
    }
}

/// Number of multiply-adds for which another thread costs less than it saves.
const PARALLEL_WORK: usize = 1 << 18;

/// A destination to which several threads write disjoint parts.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub start: *mut f32,
    pub len: usize,
    pub stride: usize,
}

// SAFETY: the pointer comes from an exclusive borrow that outlives the work, and the work items
// write disjoint columns or rows.
unsafe impl Send for Target {}
unsafe impl Sync for Target {}

impl Target {
    #[inline(always)]
    pub(crate) fn put(&self, row: usize, column: usize, value: f32) {
        let at = row * self.stride + column;
        debug_assert!(at < self.len);
        // SAFETY: the code that makes a target checks that it holds all rows and columns of the
        // work, and no other thread touches this element.
        unsafe { *self.start.add(at) = value }
    }

    /// Returns the part from a column on.
    pub(crate) fn beginning_at(&self, column: usize) -> Target {
        let column = column.min(self.len);
        // SAFETY: within the destination.
        Target { start: unsafe { self.start.add(column) }, len: self.len - column, ..*self }
    }

    /// Writes values in columns from `column` on.
    #[inline(always)]
    pub(crate) fn put_all(&self, row: usize, column: usize, values: &[f32]) {
        let at = row * self.stride + column;
        debug_assert!(at + values.len() <= self.len);
        // SAFETY: as for `put`.
        unsafe { std::ptr::copy_nonoverlapping(values.as_ptr(), self.start.add(at), values.len()) }
    }

    /// Writes values in [`LANES16`] columns from `column` on.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    pub(crate) unsafe fn put_wide<V: Simd16>(&self, row: usize, column: usize, values: V) {
        let at = row * self.stride + column;
        debug_assert!(at + LANES16 <= self.len);
        // SAFETY: as for `put`, and by the caller's promise.
        unsafe { values.store(self.start.add(at)) }
    }

    /// Reads up to [`LANES16`] columns, at most `n`, from `column` on.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    pub(crate) unsafe fn get_part<V: Simd16>(&self, row: usize, column: usize, n: usize) -> V {
        let at = row * self.stride + column;
        debug_assert!(at + n.min(LANES16) <= self.len);
        // SAFETY: as for `put`, and by the caller's promise.
        unsafe { V::load_part(self.start.add(at), n, 0.0) }
    }

    /// Writes up to [`LANES16`] columns, at most `n`, from `column` on.
    ///
    /// # Safety
    /// As for all of [`Simd16`].
    #[inline(always)]
    pub(crate) unsafe fn put_part<V: Simd16>(&self, row: usize, column: usize, n: usize, values: V) {
        let at = row * self.stride + column;
        debug_assert!(at + n.min(LANES16) <= self.len);
        // SAFETY: as for `put`, and by the caller's promise.
        unsafe { values.store_part(self.start.add(at), n) }
    }
}

/// Runs `work` over `0..items`, on as many threads as pay.
pub(super) fn parallel_for(items: usize, multiply_adds: usize, work: impl Fn(Range<usize>) + Sync) {
    threads::in_chunks(items, multiply_adds / PARALLEL_WORK, work);
}
