fn main() {
    no_such_thing();
}
