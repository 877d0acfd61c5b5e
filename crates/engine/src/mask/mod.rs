//! Token masks of configurations: which tokens may come next.
//!
//! A token is legal if its bytes lead to a live configuration. The machine decides this for bytes.
//! This module answers for all tokens of a vocabulary at once, and memoises the answers in three
//! tables:
//!
//! 1. By *local state*: the tokens that stay inside the rule, and the *exits*, which leave it. Both
//!    are independent of the stack, so every call of the rule shares them.
//! 2. By *return state and set of exits*: the tokens that continue after the return, and further
//!    exits.
//! 3. By *configuration*: the union of both along its stacks.
//!
//! # Files
//!
//! - `cache`: [`MaskCache`], the masks of configurations. `memo`: the memo tables, and [`BaseMasks`],
//!   which grammars share.
//! - `builder`: layer 1, the choice of the strategy for a state. `configuration_union`: layer 3.
//! - `token_mask`: [`Mask`]. `union`: unions of masks, and operations on mask rows.
//! - `exits`: sets of exits and the trie of what remains of their tokens.
//! - `trie_walk`: the walk of the byte trie that finds the legal tokens of a state.
//! - `returns`: layer 2, the masks after returns.
//! - `calls`: calls that a walk leaves, so that all callers share the mask of the called rule.
//! - `contexts`: masks of states in the context of the rules around theirs.
//! - `thread_sets`: interned sets of threads with memoised steps, for walks that enter and leave
//!   rules.
//! - `slice_masks`: the part of a mask that slices of the vocabulary give.
//! - `state_fits`: how long strings over a slice may be for a state, as data.
//! - `slice_fit`: the choice of the slice for a state.
//! - `slice_search`: the search of states that strings over a slice reach.
//! - `rejection_bytes`: necessary conditions on the bytes of a string that a state rejects.
//! - `rejected_tokens`: the tokens of a slice that a state rejects.
//! - `class_loops`: masks of states that loop in a class of bytes that is no slice.
//! - `added_tokens`: the tokens that one more text state adds to a mask.
//! - `unique_names`: masks of names that must not repeat.
//! - `unique_items`: tokens that would repeat an item of an array with unique items.
//! - `oracle_tests`: tests of all shortcuts against a plain walk.
//!
//! # Order of the strategies
//!
//! ```text
//! mask(configuration)
//!  1  configuration cache hit ................................. done
//!  2  for each local state, the first that applies:
//!     a  added_by                  text state after another text state
//!     b  root_mask                 state of the root rule: no exits
//!     c  memo table                base first, then the grammar
//!     d  bounded_text              text with a length: filter a counted mask
//!     e  unique_text_mask,         text that must be a new name:
//!        unique_language_mask        filter exits or tokens
//!     f  pattern_text_mask         pattern with a length, far from its bound
//!     g  class_loop_mask           loop in a class of bytes that is no slice
//!     h  slice and residue walk    widest slice first, then narrower ones
//!     i  trie walk                 the whole vocabulary
//!     j  follow_calls              calls that the walk of h or i has left
//!     k  add_in_context            instead, if nearly all tokens are exits
//!  3  for each set of exits and stack: after_return (memo table, else a walk of the exit trie)
//!  4  union of all parts
//!  5  remove_repeated_names        if the configuration tracks names
//!  6  remove repeated items        if the constraint has unique items
//! ```
//!
//! Step 2b makes its mask by g to j and keeps it in a table of its own. The memo table of c keeps
//! the results of d to j.
//!
//! # Cost
//!
//! A warm mask is one hash lookup and a copy of a mask row. Inside string text the slices answer
//! for nearly all tokens. Character counts and forbidden names then only filter some exits.
//!
//! # Alternatives considered
//!
//! A dense mask row for each state: it takes the size of a mask row times the number of states, and
//! in-string states of different properties would share nothing.

mod added_tokens;
mod builder;
mod cache;
mod calls;
mod class_loops;
mod configuration_union;
mod contexts;
mod exits;
mod memo;
#[cfg(test)]
mod oracle_tests;
mod rejected_tokens;
mod rejection_bytes;
mod returns;
mod slice_fit;
mod slice_masks;
mod slice_search;
mod state_fits;
mod thread_sets;
mod token_mask;
mod trie_walk;
mod union;
mod unique_items;
mod unique_names;

pub(crate) use cache::MaskCache;
pub(crate) use memo::BaseMasks;
pub(crate) use token_mask::Mask;
