//! Pages without code, from the folder `docs`.
//!
//! Each page names its link targets at its end, for browsers. `links.md` names them for rustdoc, which then checks that
//! they exist. The first definition of a link counts, so `links.md` comes before the page.

#[doc = concat!(include_str!("links.md"), "\n", include_str!("../../docs/coming_from.md"))]
pub mod coming_from {}

#[cfg(feature = "postgres")]
#[doc = concat!(include_str!("links.md"), include_str!("links_of_postgres.md"), "\n", include_str!("../../docs/many_instances.md"))]
pub mod many_instances {}

#[cfg(feature = "postgres")]
#[doc = concat!(include_str!("links.md"), include_str!("links_of_postgres.md"), "\n", include_str!("../../docs/on_call.md"))]
pub mod on_call {}

#[doc = concat!(include_str!("links.md"), "\n", include_str!("../../docs/promises.md"))]
pub mod promises {}

#[cfg(feature = "postgres")]
#[doc = concat!(include_str!("links.md"), include_str!("links_of_postgres.md"), "\n", include_str!("../../docs/sizing.md"))]
pub mod sizing {}
