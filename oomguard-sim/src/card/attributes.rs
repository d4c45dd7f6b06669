//! What a device answers about itself: an H200's own answers, but for what the configuration changes.

use super::Card;
use super::error::{Error, Result};

/// `CUdevice_attribute` 1 to 147, as one H200 with driver 580 (CUDA 13.0) answered.
#[rustfmt::skip]
const ATTRIBUTES: [i32; 147] = [
    1024, 1024, 1024, 64, 2_147_483_647, 65535, 65535, 49152, 65536, 32, 2_147_483_647, 65536, 1_980_000, 512, 1,
    132, 0, 0, 1, 0, 131_072, 131_072, 65536, 16384, 16384, 16384, 32768, 32768, 2048, 512, 1, 1, 0, 6, 0, 3_201_000,
    6016, 62_914_560, 2048, 3, 1, 32768, 2048, 1, 32768, 32768, 8192, 8192, 32768, 0, 32, 32768, 32768, 2046, 32768,
    131_072, 65536, 16384, 16384, 16384, 32768, 2048, 32768, 32768, 2048, 32768, 32768, 2046, 268_435_456, 131_072,
    65000, 2_097_120, 32768, 32768, 9, 0, 32768, 1, 1, 1, 233_472, 65536, 1, 0, 0, 0, 2, 0, 1, 1, 1, 0, 0, 0, 1, 1,
    232_448, 0, 1, 0, 0, 1, 1, 0, 0, 32, 1, 39_321_600, 134_217_728, 1, 1024, 1, 1, 1, 1, 1, 1, 100, 9, 1, 1, 1, 1,
    1, 1, 4, 1, 1, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0, 590_680_286, 415_174_878, 1, 1, 0, 1, 1, 0, 0,
];

const PCI_BUS: i32 = 33;
const PCI_DEVICE: i32 = 34;
const MEMORY_POOLS_SUPPORTED: i32 = 115;
const MEMPOOL_HANDLE_TYPES: i32 = 119;

/// The bus number of the first device; the others follow it.
const FIRST_PCI_DEVICE: i32 = 6;

impl Card {
    pub(crate) fn attribute(&self, device: i32, attribute: i32) -> Result<i32> {
        self.ordinal(device)?;
        let value = usize::try_from(attribute - 1).ok().and_then(|index| ATTRIBUTES.get(index).copied());
        let value = value.ok_or(Error::InvalidValue)?;
        Ok(match attribute {
            // The one bus there is; and no pool can be shared with another process.
            PCI_BUS | MEMPOOL_HANDLE_TYPES => 0,
            PCI_DEVICE => FIRST_PCI_DEVICE + device,
            MEMORY_POOLS_SUPPORTED => i32::from(!self.config.no_pools),
            _ => value,
        })
    }

    pub(crate) fn pci_bus_id(&self, device: i32) -> Result<String> {
        self.ordinal(device)?;
        Ok(format!("0000:00:{:02x}.0", FIRST_PCI_DEVICE + device))
    }

    /// Sixteen bytes that no real device has.
    pub(crate) fn uuid(&self, device: i32) -> Result<[u8; 16]> {
        self.ordinal(device)?;
        let mut uuid = *b"oomguard-sim-\0\0\0";
        uuid[15] = device.to_le_bytes()[0];
        Ok(uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CardConfig;

    #[test]
    fn devices_answer_as_the_card_did_and_differ_in_their_place() {
        let card = Card::new(CardConfig { devices: 2, no_pools: true, ..CardConfig::default() });
        assert_eq!(card.attribute(0, 75), Ok(9), "compute capability");
        assert_eq!(card.attribute(0, 16), Ok(132), "multiprocessors");
        assert_eq!(card.attribute(0, MEMORY_POOLS_SUPPORTED), Ok(0));
        assert_eq!(card.attribute(0, 0), Err(Error::InvalidValue));
        assert_eq!(card.attribute(0, 148), Err(Error::InvalidValue));
        assert_eq!(card.attribute(2, 1), Err(Error::InvalidDevice));
        assert_ne!(card.pci_bus_id(0), card.pci_bus_id(1));
        assert_ne!(card.uuid(0), card.uuid(1));
    }
}
