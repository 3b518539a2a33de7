//! Requests to records; pure functions.
