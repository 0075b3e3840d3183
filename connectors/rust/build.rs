//! Makes the messages and services of `proto/` into Rust. It needs `protoc`, which `PROTOC` names; the README says how.

fn main() -> std::io::Result<()> {
    let proto = std::path::Path::new("../../proto");
    let files = ["plugin", "connector", "source", "sink"]
        .map(|name| proto.join(format!("penstock/api/connector/v1/{name}_service.proto")));
    println!("cargo:rerun-if-changed={}", proto.join("penstock").display());
    tonic_prost_build::configure()
        .build_client(false)
        .include_file("protocol.rs")
        .compile_protos(&files, &[proto.to_path_buf()])
}
