fn main(){ nucleus::touch() }
