//! Reading and every error.
