fn main() {
    println!("before");
    panic!("went wrong");
}
