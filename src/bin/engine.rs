fn main() {
    nucleus::touch()
}
