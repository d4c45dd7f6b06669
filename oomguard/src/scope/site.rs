//! A site: the static that a macro leaves in each tracked function.

/// What the macro knows of a function.
#[derive(Debug, Clone, Copy)]
pub struct SiteMeta {
    /// The name that the user gave.
    pub name: Option<&'static str>,
    /// The path of an item inside the function, from which the function's own is cut.
    pub path: fn() -> &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line of the attribute.
    pub line: u32,
    /// The most bytes that a call may net.
    pub growth: Option<u64>,
    /// The most bytes above its entry that a call may reach.
    pub peak: Option<u64>,
    /// Whether an error that the function returns is seen as one.
    pub sees_outcome: bool,
}

/// One tracked function.
#[derive(Debug)]
pub struct Site {
    pub(crate) meta: SiteMeta,
}

impl Site {
    /// A site, in a static.
    pub const fn new(meta: SiteMeta) -> Self {
        Self { meta }
    }

    /// The function's path: crate, modules, type and name.
    pub(crate) fn path(&self) -> String {
        let inner = (self.meta.path)();
        let path = inner.rsplit_once("::").map_or(inner, |(function, _)| function);
        // A closure around the site is the macro's own or the user's: the function is what has a name.
        path.replace("::{{closure}}", "")
    }

    /// The scope's name: the one given, or the path.
    pub(crate) fn name(&self) -> String {
        self.meta.name.map_or_else(|| self.path(), str::to_owned)
    }
}

/// A site's entry in the list of all.
#[derive(Debug)]
pub struct Registered(pub &'static Site);

inventory::collect!(Registered);

/// Every site of the program, called or not.
pub(crate) fn registered() -> impl Iterator<Item = &'static Site> {
    inventory::iter::<Registered>.into_iter().map(|registered| registered.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::any::type_name_of_val;

    struct Layer<T>(T);
    impl<T> Layer<T> {
        fn site(&self) -> Site {
            fn here() {}
            let _ = &self.0;
            Site::new(SiteMeta {
                name: None,
                path: || type_name_of_val(&here),
                file: "",
                line: 0,
                growth: None,
                peak: None,
                sees_outcome: false,
            })
        }
    }

    #[test]
    fn a_method_is_named_by_its_type() {
        assert_eq!(Layer(1_u8).site().path(), "oomguard::scope::site::tests::Layer<_>::site");
    }
}
