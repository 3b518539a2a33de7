//! The doors: OTLP over gRPC and HTTP, and the native JSON POST.

pub mod decode;
