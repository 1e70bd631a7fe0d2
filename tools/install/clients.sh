# shellcheck shell=bash
# The clients that tests and examples use; part of tools/install.sh.

clients_part() {
    local pins
    for pins in tests/clients/requirements/*.txt; do client "$pins"; done
}

large_clients_part() {  # 3 GB; torch is the product's own, and of vLLM only what is Python, for its benchmark
    local pins folder=.venvs/benchmarks version=0.33.0 hash=f4c33c2503d52bb411146afa9618a4f48bed68912f617e6803ac8d76e4c74112
    ldconfig -p | grep -q 'libb64\.so\.0d' || apt libb64-0d  # for perf_analyzer
    for pins in tests/clients/requirements/large/*.txt; do client "$pins" large; done
    agents_part
    [ -f "$folder/.installed-vllm-$version" ] && return
    say "building vLLM's benchmark into $folder"
    echo "vllm==$version --hash=sha256:$hash" >"$folder/vllm.txt"
    VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=$version .venv/bin/pip --python "$folder/bin/python" install --quiet \
        --disable-pip-version-check --no-deps --no-binary vllm --no-build-isolation --require-hashes -r "$folder/vllm.txt"
    touch "$folder/.installed-vllm-$version"
}

client() {  # client PINS [large]: an environment of that name, which finds the product's packages after its own if it is large
    local pins=$1 folder
    folder=.venvs/$(basename "$pins" .txt)
    [ -f "$folder/.installed" ] && [ "$folder/.installed" -nt "$pins" ] && return
    say "installing the client $(basename "$folder") into $folder"
    rm -rf "$folder"
    .venv/bin/python -m venv --without-pip "$folder"
    uv pip install --python "$folder/bin/python" --no-deps --require-hashes -r "$pins"
    if [ $# -gt 1 ]; then
        .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
            >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/product.pth"
    fi
    touch "$folder/.installed"
}

agents_part() {  # coding agents, 1 GB
    local pins=tests/clients/agents folder=.cache/agents
    [ "$folder/.installed" -nt "$pins/package-lock.json" ] && return
    command -v npm >/dev/null || apt nodejs npm
    say "installing coding agents into $folder"
    mkdir -p "$folder" && cp $pins/package{,-lock}.json "$folder/"
    npm ci --prefix "$folder" --silent --no-audit --no-fund
    touch "$folder/.installed"
}

examples_part() {
    local stamp=examples/node_modules/.installed
    [ -f "$stamp" ] && [ "$stamp" -nt examples/package-lock.json ] && return
    command -v npm >/dev/null || apt nodejs npm
    say "installing npm packages into examples/node_modules"
    npm ci --prefix examples --silent --no-audit --no-fund
    touch "$stamp"
}

languages_part() {
    local -a packages=(g++ golang-go golang-google-grpc-dev golang-github-golang-protobuf-1-5-dev
        libgeronimo-annotation-1.3-spec-java libgoogle-gson-java libgrpc++-dev libgrpc-java libguava-java
        libjsr305-java libnetty-java
        libperfmark-java libprotobuf-java mono-mcs php-cli php-curl php-google-protobuf pkg-config protobuf-compiler
        protobuf-compiler-grpc protobuf-compiler-grpc-java-plugin protoc-gen-go-1-5 protoc-gen-go-grpc ruby ruby-grpc
        ruby-grpc-tools)
    command -v javac >/dev/null || packages+=(default-jdk-headless)
    browser_part
    dpkg --status "${packages[@]}" >/dev/null 2>&1 || apt "${packages[@]}"
}

browser_part() {
    command -v chromium-headless-shell >/dev/null || apt chromium-headless-shell
}
