// The same as embed.c in C++11: handles that close themselves, errors as exceptions, rows written in place.
#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tpugraphs.h>

namespace {

struct Close {
    void operator()(tg_ranker *ranker) const { tg_ranker_close(ranker); }
    void operator()(tg_graph_builder *builder) const { tg_builder_close(builder); }
};
template <class T> using Handle = std::unique_ptr<T, Close>;

// Throws what the message says.
class Check {
  public:
    operator tg_message *() { return &message_; }
    void operator()(tg_status status) const {
        if (status != TG_OK) throw std::runtime_error(message_.text);
    }

  private:
    tg_message message_ = TG_MESSAGE;
};

Handle<tg_ranker> open(const char *path) {
    Check check;
    tg_ranker *ranker = nullptr;
    check(tg_ranker_open(path, nullptr, &ranker, check));
    return Handle<tg_ranker>(ranker);
}

Handle<tg_graph_builder> build(tg_ranker *ranker) {
    Check check;
    tg_graph_builder *builder = nullptr;
    check(tg_builder_open(ranker, &builder, check));
    Handle<tg_graph_builder> owner(builder);
    const auto size = tg_feature_index(ranker, TG_NODE, "size"),
               where = tg_feature_index(ranker, TG_NODE, "where");
    const auto device = tg_feature_value(ranker, TG_NODE, where, "device");
    check(tg_builder_set(builder, TG_GRAPH_WIDE, 0, tg_feature_index(ranker, TG_GRAPH_WIDE, "batch"), 32,
                         check));
    for (int i = 0; i < 5; i++) {
        check(tg_builder_node(builder, i % 3, 0, nullptr, check));
        check(tg_builder_set(builder, TG_NODE, i, size, 1 << (2 * i), check));
        check(tg_builder_set(builder, TG_NODE, i, where, device, check));
        if (i > 0) check(tg_builder_edge(builder, i, i - 1, check));
    }
    return owner;
}

void add_configs(tg_ranker *ranker, tg_graph_builder *builder, int count) {
    Check check;
    const auto block = tg_feature_index(ranker, TG_CONFIG, "block"),
               unroll = tg_feature_index(ranker, TG_CONFIG, "unroll"),
               vector = tg_feature_index(ranker, TG_CONFIG, "vector"),
               order = tg_feature_index(ranker, TG_CONFIG, "order"),
               tiled = tg_feature_value(ranker, TG_CONFIG, order, "tiled");
    if (block < 0 || unroll < 0 || vector < 0 || order < 0)
        throw std::runtime_error("a ranker of other configs");
    for (int i = 0; i < count; i++) {
        check(tg_builder_config(builder, -1, nullptr, check));
        float *row = tg_builder_row(builder, TG_CONFIG, i);
        row[block] = static_cast<float>(1 << i % 9);
        row[unroll] = static_cast<float>(1 + i % 8);
        row[vector] = static_cast<float>(i % 2);
        if (i % 3 == 0) row[order] = static_cast<float>(tiled);
    }
}

void run(const char *path) {
    Check check;
    const auto ranker = open(path);
    const auto builder = build(ranker.get());
    add_configs(ranker.get(), builder.get(), 1000);
    std::vector<float> scores(static_cast<std::size_t>(tg_builder_count(builder.get())));
    std::array<std::int64_t, 5> best;
    check(tg_builder_score(builder.get(), scores.data(), check));
    check(tg_best(scores.data(), tg_builder_count(builder.get()), best.size(), best.data(), check));
    for (const auto config : best)
        std::printf("%d %a\n", static_cast<int>(config),
                    static_cast<double>(scores[static_cast<std::size_t>(config)]));
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc != 2) throw std::runtime_error("usage: embed RANKER");
        run(argv[1]);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
