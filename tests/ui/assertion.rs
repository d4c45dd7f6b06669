fn main() {
    oomguard::assert_no_growth!();
    oomguard::assert_no_growth!(iteration = 5, || ());
    oomguard::assert_no_growth!(iterations = 1, || ());
    oomguard::assert_no_growth!(tolerance = "1 mb", || ());
    oomguard::assert_no_growth!(|| (), warmup = 5);
}
