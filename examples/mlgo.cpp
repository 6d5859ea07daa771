// A compiler's advisor in the shape of LLVM's MLModelRunner: mlgo RANKER. Features are named buffers that are set up once and
// filled in place; evaluate() asks the ranker, allocates nothing, and keeps the compiler's own choice unless another is
// better by a margin. A feature that the ranker does not know is a buffer that nobody reads.
#include <cstdio>
#include <list>
#include <memory>
#include <stdexcept>
#include <vector>

#include <tpugraphs.h>

namespace {

class Runner {
  public:
    // `choices` configs are compared by every evaluate(); the first is what the compiler does without advice.
    Runner(const char *path, int choices) : scores_(static_cast<std::size_t>(choices)) {
        check(tg_ranker_open(path, nullptr, &ranker_, &message_));
        check(tg_builder_open(ranker_, &builder_, &message_));
        check(tg_builder_node(builder_, 0, 0, nullptr, &message_));
        for (int i = 0; i < choices; i++) check(tg_builder_config(builder_, -1, nullptr, &message_));
        check(tg_builder_score(builder_, scores_.data(), &message_)); // takes all memory
    }
    ~Runner() {
        tg_builder_close(builder_);
        tg_ranker_close(ranker_);
    }
    Runner(const Runner &) = delete;
    Runner &operator=(const Runner &) = delete;

    // Where to write this feature of a choice, for as long as the runner lives.
    float *feature(const char *name, int choice) {
        const auto index = tg_feature_index(ranker_, TG_CONFIG, name);
        if (index >= 0) return tg_builder_row(builder_, TG_CONFIG, choice) + index;
        unread_.push_back(0);
        return &unread_.back();
    }

    // The choice to make.
    int evaluate(double margin) {
        check(tg_builder_score(builder_, scores_.data(), &message_));
        return static_cast<int>(
            tg_decide(scores_.data(), static_cast<std::int64_t>(scores_.size()), 0, margin));
    }

    double score(int choice) const { return static_cast<double>(scores_[static_cast<std::size_t>(choice)]); }

  private:
    void check(tg_status status) const {
        if (status != TG_OK) throw std::runtime_error(message_.text);
    }

    tg_ranker *ranker_ = nullptr;
    tg_graph_builder *builder_ = nullptr;
    std::vector<float> scores_;
    std::list<float> unread_;
    tg_message message_ = TG_MESSAGE;
};

// Every loop of a program may be unrolled by 1 (as the compiler would), 2, 4 or 8.
void advise(const char *path) {
    enum { CHOICES = 4 };
    Runner runner(path, CHOICES);
    float *block[CHOICES], *unroll[CHOICES], *newer[CHOICES];
    for (int i = 0; i < CHOICES; i++) {
        block[i] = runner.feature("block", i);
        unroll[i] = runner.feature("unroll", i);
        newer[i] = runner.feature("a feature that came later", i);
    }
    for (int loop = 0; loop < 9; loop++) {
        for (int i = 0; i < CHOICES; i++) {
            *block[i] = static_cast<float>(1 << loop);
            *unroll[i] = static_cast<float>(1 << i);
            *newer[i] = 1;
        }
        const int choice = runner.evaluate(0.001);
        std::printf("%d %d %a %a\n", loop, choice, runner.score(0), runner.score(choice));
    }
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc != 2) throw std::runtime_error("usage: mlgo RANKER");
        advise(argv[1]);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
