//! A matrix of quantised weights in memory: the tiles of its outputs, by sixteen.
//!
//! # Cost
//!
//! Packing passes over the blocks once and runs on all threads.

use std::marker::PhantomData;
use std::ops::Deref;

use memmap2::MmapMut;

use super::formats::{BlockFormat, GROUP};
use super::quantize::BLOCK;
use super::simd16::{LANES16, Portable, Simd16};
use crate::threads;

/// Bytes from which memory is taken in huge pages, so that reading it needs few translations of
/// addresses.
const HUGE_FROM: usize = 1 << 21;

/// Zeroed memory for tiles.
enum TileBuffer {
    Small(Vec<u8>),
    Large(MmapMut),
}

impl TileBuffer {
    fn new(len: usize) -> Self {
        if len >= HUGE_FROM
            && let Ok(map) = MmapMut::map_anon(len)
        {
            // Only the speed depends on it.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return TileBuffer::Large(map);
        }
        TileBuffer::Small(vec![0; len])
    }

    fn bytes(&mut self) -> &mut [u8] {
        match self {
            TileBuffer::Small(bytes) => bytes,
            TileBuffer::Large(map) => map,
        }
    }
}

impl Deref for TileBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            TileBuffer::Small(bytes) => bytes,
            TileBuffer::Large(map) => map,
        }
    }
}

/// A matrix of weights in the format F. The last group of outputs may have some that do not exist.
pub(crate) struct Packed<F> {
    /// For each group its tiles, in the order of the inputs.
    tiles: TileBuffer,
    pub rows: usize,
    pub width: usize,
    format: PhantomData<F>,
}

impl<F: BlockFormat> Packed<F> {
    /// Packs the blocks of each output, which has `width` inputs.
    ///
    /// # Panics
    /// If the width is not a number of whole blocks, or a row has another number of them.
    pub(crate) fn new(rows: &[&[u8]], width: usize) -> Self {
        assert!(width > 0 && width.is_multiple_of(F::BLOCK_WEIGHTS), "rows of whole blocks");
        let row_bytes = width / F::BLOCK_WEIGHTS * F::BLOCK_BYTES;
        assert!(rows.iter().all(|row| row.len() == row_bytes), "rows of the same width");
        let group_bytes = width / F::BLOCK_WEIGHTS * F::TILE;
        let mut tiles = TileBuffer::new(rows.len().div_ceil(GROUP) * group_bytes);
        let groups = tiles.bytes().chunks_exact_mut(group_bytes).zip(rows.chunks(GROUP));
        let mut groups: Vec<(&mut [u8], &[&[u8]])> = groups.collect();
        threads::each(&mut groups, |(group, rows)| {
            // Tile by tile, so that a tile is written while it is in the caches.
            for (i, tile) in group.chunks_exact_mut(F::TILE).enumerate() {
                for (lane, row) in rows.iter().enumerate() {
                    F::pack(&row[i * F::BLOCK_BYTES..][..F::BLOCK_BYTES], lane, tile);
                }
            }
        });
        Packed { tiles, rows: rows.len(), width, format: PhantomData }
    }

    /// Returns the bytes of all tiles.
    pub(crate) fn bytes(&self) -> usize {
        self.tiles.len()
    }

    /// Returns the tiles of a group.
    pub(crate) fn group(&self, group: usize) -> &[u8] {
        let bytes = self.width / F::BLOCK_WEIGHTS * F::TILE;
        &self.tiles[group * bytes..][..bytes]
    }

    /// Writes the weights of output `lane` of a tile.
    pub(crate) fn widen(tile: &[u8], lane: usize, out: &mut [f32]) {
        type V = Portable<false>;
        assert!(tile.len() == F::TILE && lane < GROUP && out.len() == F::BLOCK_WEIGHTS);
        for (at, out) in out.chunks_exact_mut(F::SCALED).enumerate() {
            let (part, half) = (at * F::SCALED / BLOCK, at % (BLOCK / F::SCALED));
            let (mut scales, mut minimums) = ([0.0; LANES16], [0.0; LANES16]);
            // SAFETY: a whole tile, the part exists, and plain arrays need no special instructions.
            unsafe {
                F::scale::<V>(tile.as_ptr(), part, half).store(scales.as_mut_ptr());
                F::minimum::<V>(tile.as_ptr(), part, half).store(minimums.as_mut_ptr());
            }
            for (k, out) in out.chunks_exact_mut(4).enumerate() {
                let k = half * F::SCALED / 4 + k;
                // SAFETY: as above.
                let values = unsafe { F::four::<V>(tile.as_ptr().add(part * F::PART), k) };
                for (out, value) in out.iter_mut().zip(&values[4 * lane..]) {
                    *out = (i32::from(*value) - F::OFFSET) as f32 * scales[lane] - minimums[lane];
                }
            }
        }
    }
}
