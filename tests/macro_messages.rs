//! What the macros say: an error points at the token and says what to write; what people write compiles.

#[test]
fn an_error_points_at_the_token_and_says_what_to_write() {
    trybuild::TestCases::new().compile_fail("ui/*.rs");
}

#[test]
fn functions_of_every_kind_compile_with_no_lint_and_do_what_they_did() {
    trybuild::TestCases::new().pass("compiles/*.rs");
}
