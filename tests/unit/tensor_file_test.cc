// SPDX-License-Identifier: Apache-2.0
#include "tensors/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <climits>
#include <csignal>
#include <thread>

#include "support/safetensors_image.h"
#include "support/temporary_directory.h"
#include "tensors/atomic_file.h"

namespace cinch::tensors {
namespace {

using test::BytesOf;
using test::ReadFile;
using test::TemporaryDirectory;
using test::WriteFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = TensorFile::Kind;

constexpr auto kReplace = AtomicFile::IfExists::kReplace;
constexpr auto kFail = AtomicFile::IfExists::kFail;

TEST(MappedFile, SaysWhyAFileCannotBeOpened) {
  const TemporaryDirectory directory;
  MappedFile file;
  std::string message;
  EXPECT_EQ(MappedFile::Open(directory.File("absent"), &file, &message), CINCH_ERROR_IO);
  EXPECT_THAT(message, HasSubstr("check the path"));
  EXPECT_EQ(MappedFile::Open(directory.path(), &file, &message), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("not a regular file"));
  EXPECT_EQ(MappedFile::Open("/dev/zero", &file, &message), CINCH_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(mkfifo(directory.File("fifo").c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(directory.File("fifo"), &file, &message), CINCH_ERROR_INVALID_ARGUMENT)
      << "and does not wait for a writer";
  if (geteuid() != 0) {
    WriteFile(directory.File("locked"), "x");
    ASSERT_EQ(chmod(directory.File("locked").c_str(), 0), 0);
    EXPECT_EQ(MappedFile::Open(directory.File("locked"), &file, &message), CINCH_ERROR_IO);
    EXPECT_THAT(message, HasSubstr("readable"));
  }
}

TEST(MappedFile, KeepsTheOldContentsOnAnErrorAndMoves) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("a"), "contents");
  MappedFile file;
  std::string message;
  ASSERT_EQ(MappedFile::Open(directory.File("a"), &file, &message), CINCH_OK);
  EXPECT_EQ(MappedFile::Open(directory.File("absent"), &file, &message), CINCH_ERROR_IO);
  EXPECT_EQ(file.bytes().size(), 8u);
  MappedFile moved(std::move(file));
  EXPECT_EQ(moved.bytes()[0], std::byte{'c'});
  std::filesystem::remove(directory.File("a"));
  EXPECT_EQ(moved.bytes()[7], std::byte{'s'}) << "a deleted file stays mapped";
}

TEST(TensorFile, ShowsAnyFileAsOneTensor) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("weights.bin");
  WriteFile(path, std::string(11, 'x'));
  TensorFile file;
  std::string message;
  ASSERT_EQ(TensorFile::Open(path, Kind::kByName, CINCH_DTYPE_BF16, &file, &message), CINCH_OK);
  EXPECT_FALSE(file.is_safetensors());
  ASSERT_EQ(file.tensors().size(), 1u);
  EXPECT_EQ(file.tensors()[0].name, "weights.bin");
  EXPECT_EQ(file.tensors()[0].dtype, CINCH_DTYPE_BF16);
  EXPECT_THAT(file.tensors()[0].shape, ElementsAre(5));
  EXPECT_EQ(file.bytes(file.tensors()[0]).size(), 11u) << "the odd byte is kept";

  WriteFile(path, "");
  ASSERT_EQ(TensorFile::Open(path, Kind::kByName, CINCH_DTYPE_AUTO, &file, &message), CINCH_OK);
  EXPECT_THAT(file.tensors()[0].shape, ElementsAre(0));
  EXPECT_TRUE(file.bytes().empty());
}

TEST(TensorFile, TheNameOrTheCallerDecidesTheKind) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("x.safetensors");
  WriteFile(path, "nonsense");
  TensorFile file;
  std::string message;
  EXPECT_EQ(TensorFile::Open(path, Kind::kByName, CINCH_DTYPE_AUTO, &file, &message),
            CINCH_ERROR_FILE_FORMAT);
  EXPECT_THAT(message, HasSubstr(path));
  EXPECT_EQ(TensorFile::Open(path, Kind::kRaw, CINCH_DTYPE_AUTO, &file, &message), CINCH_OK);
  WriteFile(directory.File("y"), test::SafetensorsImage("{}", 0));
  EXPECT_EQ(
      TensorFile::Open(directory.File("y"), Kind::kSafetensors, CINCH_DTYPE_AUTO, &file, &message),
      CINCH_OK);
  EXPECT_TRUE(file.is_safetensors());
  EXPECT_THAT(file.tensors(), IsEmpty());
}

TEST(TensorFile, KnowsOneFileByTwoNames) {
  const TemporaryDirectory directory;
  WriteFile(directory.File("a"), "1");
  WriteFile(directory.File("b"), "1");
  std::filesystem::create_symlink(directory.File("a"), directory.File("link"));
  EXPECT_TRUE(IsSameFile(directory.File("a"), directory.File("link")));
  EXPECT_FALSE(IsSameFile(directory.File("a"), directory.File("b")));
  EXPECT_FALSE(IsSameFile(directory.File("a"), directory.File("absent")));
  EXPECT_FALSE(IsSameFile(directory.File("absent"), directory.File("absent")));
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("out");
  WriteFile(path, "old");
  AtomicFile file;
  std::string message;
  ASSERT_EQ(AtomicFile::Create(path, 6, kReplace, &file, &message), CINCH_OK) << message;
  const std::string text = "newer!";
  EXPECT_EQ(file.WriteAt(3, BytesOf(text).subspan(3), &message), CINCH_OK);
  EXPECT_EQ(file.WriteAt(0, BytesOf(text).first(3), &message), CINCH_OK);
  EXPECT_EQ(file.WriteAt(1, BytesOf(text), &message), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(file.WriteAt(~uint64_t{0}, BytesOf(text), &message), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(ReadFile(path), "old");
  EXPECT_EQ(file.Commit(&message), CINCH_OK) << message;
  EXPECT_EQ(ReadFile(path), "newer!");
  EXPECT_EQ(file.Commit(&message), CINCH_ERROR_INVALID_ARGUMENT) << "only once";
  EXPECT_THAT(directory.Names(), ElementsAre("out"));
}

TEST(AtomicFile, DoesNotReplaceUnlessAsked) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("out");
  AtomicFile file;
  std::string message;
  ASSERT_EQ(AtomicFile::Create(path, 3, kFail, &file, &message), CINCH_OK);
  WriteFile(path, "somebody else's");  // Between Create() and Commit().
  EXPECT_EQ(file.Commit(&message), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("exists already"));
  EXPECT_EQ(ReadFile(path), "somebody else's");
  EXPECT_EQ(AtomicFile::Create(path, 3, kFail, &file, &message), CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(directory.Names(), ElementsAre("out"));
}

TEST(AtomicFile, SaysWhyAFileCannotBeCreated) {
  const TemporaryDirectory directory;
  AtomicFile file;
  std::string message;
  EXPECT_EQ(AtomicFile::Create(directory.path(), 1, kReplace, &file, &message),
            CINCH_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(AtomicFile::Create(directory.File("no/such"), 1, kReplace, &file, &message),
            CINCH_ERROR_IO);
  EXPECT_THAT(message, HasSubstr("create the directory"));
  EXPECT_EQ(AtomicFile::Create(directory.File("huge"), ~uint64_t{0}, kReplace, &file, &message),
            CINCH_ERROR_NO_SPACE);
  EXPECT_THAT(directory.Names(), IsEmpty());
}

TEST(AtomicFile, TheLongestNamesHaveRoomForATemporaryOne) {
  for (const auto if_exists : {kFail, kReplace}) {
    const TemporaryDirectory directory;
    AtomicFile file;
    std::string message;
    const std::string longest(NAME_MAX, 'n');
    ASSERT_EQ(AtomicFile::Create(directory.File(longest), 0, if_exists, &file, &message), CINCH_OK)
        << message;
    EXPECT_EQ(file.Commit(&message), CINCH_OK) << message;
    EXPECT_THAT(directory.Names(), ElementsAre(longest));
    Status status =
        AtomicFile::Create(directory.File(longest + 'n'), 0, if_exists, &file, &message);
    if (status == CINCH_OK) {
      status = file.Commit(&message);
    }
    EXPECT_EQ(status, CINCH_ERROR_IO);
    EXPECT_THAT(directory.Names(), ElementsAre(longest));
  }
}

TEST(AtomicFile, TwoWritersOfOneNameDoNotMix) {
  const TemporaryDirectory directory;
  const std::string path = directory.File("out");
  const auto write = [&path](char letter) {
    for (int i = 0; i < 50; ++i) {
      AtomicFile file;
      std::string message;
      const std::string text(10'000, letter);
      ASSERT_EQ(AtomicFile::Create(path, text.size(), kReplace, &file, &message), CINCH_OK)
          << message;
      ASSERT_EQ(file.WriteAt(0, BytesOf(text), &message), CINCH_OK) << message;
      ASSERT_EQ(file.Commit(&message), CINCH_OK) << message;
    }
  };
  std::thread first(write, 'a');
  std::thread second(write, 'b');
  first.join();
  second.join();
  const std::string text = ReadFile(path);
  EXPECT_TRUE(text == std::string(10'000, 'a') || text == std::string(10'000, 'b'));
  EXPECT_THAT(directory.Names(), ElementsAre("out"));
}

/// Lets no file of this process grow beyond a limit, as a full disk or a quota would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t limit_bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit = {limit_bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_limit_{};
  void (*old_handler_)(int) = nullptr;
};

TEST(AtomicFile, AFileBeyondTheLimitIsRefusedAtOnce) {
  const TemporaryDirectory directory;
  AtomicFile file;
  std::string message;
  Status status = CINCH_OK;
  {
    const FileSizeLimit limit(64 * 1024);
    status = AtomicFile::Create(directory.File("out"), 1 << 20, kReplace, &file, &message);
  }
  EXPECT_EQ(status, CINCH_ERROR_NO_SPACE);
  EXPECT_THAT(message, HasSubstr("free space"));
  EXPECT_THAT(directory.Names(), IsEmpty());
}

TEST(AtomicFile, AFullDiskIsNoticedBeforeAnyDataAndLeavesTheOldFile) {
  const TemporaryDirectory directory;
  if (mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=256k") != 0) {
    GTEST_SKIP() << "mounting a small file system needs privileges";
  }
  WriteFile(directory.File("out"), "old");
  AtomicFile file;
  std::string message;
  const Status status =
      AtomicFile::Create(directory.File("out"), 1 << 20, kReplace, &file, &message);
  const std::string contents = ReadFile(directory.File("out"));
  const std::vector<std::string> names = directory.Names();
  umount(directory.path().c_str());
  EXPECT_EQ(status, CINCH_ERROR_NO_SPACE);
  EXPECT_THAT(message, HasSubstr("No space left"));
  EXPECT_EQ(contents, "old");
  EXPECT_THAT(names, ElementsAre("out"));
}

}  // namespace
}  // namespace cinch::tensors
