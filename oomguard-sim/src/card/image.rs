//! What can be read out of a module's image without running it: names, for PTX, and a size.

/// A module's image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// Bytes it takes of the card.
    pub(crate) bytes: u64,
    /// Its kernels and variables, or `None` where the image is machine code, whose names we do not read: any will do.
    pub(crate) names: Option<Names>,
}

/// The names in a PTX text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) kernels: Vec<String>,
    /// Name and bytes.
    pub(crate) variables: Vec<(String, u64)>,
}

impl Image {
    /// Reads a PTX text, or refuses what is none.
    pub(crate) fn from_ptx(text: &str) -> Option<Self> {
        let mut names = Names::default();
        let mut is_ptx = false;
        let mut words = words(text);
        while let Some(word) = words.next() {
            match word {
                ".version" => is_ptx = true,
                ".entry" => names.kernels.extend(words.next().map(str::to_owned)),
                ".global" | ".const" => names.variables.extend(variable(&mut words)),
                _ => {}
            }
        }
        is_ptx.then_some(Self { bytes: text.len() as u64 + 1, names: Some(names) })
    }

    /// Machine code of so many bytes.
    pub(crate) fn opaque(bytes: u64) -> Self {
        Self { bytes: bytes.max(1), names: None }
    }
}

/// PTX in words: brackets and punctuation part them, but the square ones of an array's length stay with its name.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    code.flat_map(|line| line.split(|c: char| c.is_whitespace() || "(){},;=".contains(c)))
        .filter(|word| !word.is_empty())
}

/// The rest of a variable's declaration: `.align 4 .b8 name[16]`.
fn variable<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<(String, u64)> {
    let mut element = 0;
    loop {
        let word = words.next()?;
        match word {
            ".align" => {
                words.next()?;
            }
            _ if word.starts_with('.') => element = element_bytes(word).unwrap_or(element),
            _ => {
                let mut parts = word.split(['[', ']']).filter(|part| !part.is_empty());
                let name = parts.next()?.to_owned();
                let count = parts.map(|part| part.parse().unwrap_or(1u64)).try_fold(1u64, u64::checked_mul)?;
                return Some((name, count.checked_mul(element)?.max(1)));
            }
        }
    }
}

fn element_bytes(word: &str) -> Option<u64> {
    let bits: u64 = word.trim_start_matches(['.', 'b', 'u', 's', 'f']).parse().ok()?;
    Some(bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_tells_its_kernels_and_variables() {
        let text = "// made by hand\n.version 7.0\n.target sm_70\n.address_size 64\n\
                    .visible .global .align 4 .b8 table[4][16];\n.global .u32 counter = 3;\n\
                    .visible .entry scale(\n  .param .u64 a\n)\n{ ld.global.f32 %f1, [%r1]; ret; }\n.entry other() { ret; }";
        let names = Image::from_ptx(text).unwrap().names.unwrap();
        assert_eq!(names.kernels, ["scale", "other"]);
        assert_eq!(names.variables, [("table".to_owned(), 64), ("counter".to_owned(), 4)]);
        assert_eq!(Image::from_ptx("garbage"), None);
    }
}
