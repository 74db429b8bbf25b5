class Broken {
	public static void main(String[] args) {
		no_such_thing();
	}
}
