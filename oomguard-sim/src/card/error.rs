//! The ways in which the card refuses, numbered as the driver numbers them.

/// Why a call was refused. The discriminants are the driver's own codes (`CUresult`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Error {
    InvalidValue = 1,
    OutOfMemory = 2,
    NotInitialized = 3,
    NoDevice = 100,
    InvalidDevice = 101,
    InvalidImage = 200,
    InvalidContext = 201,
    EccUncorrectable = 214,
    UnsupportedLimit = 215,
    FileNotFound = 301,
    InvalidHandle = 400,
    NotFound = 500,
    NotReady = 600,
    PeerAccessAlreadyEnabled = 704,
    PeerAccessNotEnabled = 705,
    ContextIsDestroyed = 709,
    HostMemoryAlreadyRegistered = 712,
    HostMemoryNotRegistered = 713,
    NotSupported = 801,
    Unknown = 999,
}

pub(crate) type Result<T> = std::result::Result<T, Error>;
