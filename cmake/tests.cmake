# ctest: every tests/test_*.c, tests/test_*.sh and tests/test_*.py is a test by its name. A test
# ends with status 77 where it cannot run (no GPU, say), and ctest reports it as skipped.

file(GLOB c_tests CONFIGURE_DEPENDS tests/test_*.c)
file(GLOB shell_tests CONFIGURE_DEPENDS tests/test_*.sh)
file(GLOB fakes CONFIGURE_DEPENDS tests/fake_*.c)
file(GLOB python_tests CONFIGURE_DEPENDS tests/test_*.py)

find_path(CMOCKA_INCLUDE_DIR cmocka.h HINTS ${compiler_include_path})
find_library(CMOCKA_LIBRARY cmocka HINTS ${compiler_library_path})
mark_as_advanced(CMOCKA_INCLUDE_DIR CMOCKA_LIBRARY)

# What every test is told: where the build is, and a cache of its own, so that no test meets the
# user's.
set(test_cache "${PROJECT_BINARY_DIR}/test-cache")
set(test_environment
  "ATTNPRESS_BUILD_DIR=${PROJECT_BINARY_DIR}" "ATTNPRESS_CACHE_DIR=${test_cache}")

function(set_up_test name)
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "${test_environment}" SKIP_RETURN_CODE 77 TIMEOUT 1200)
endfunction()

# A test that cannot even be built says why, and counts as skipped.
function(add_skipped_test name reason)
  add_test(NAME ${name} COMMAND sh -c "echo 'skipped: ${reason}'; exit 77")
  set_up_test(${name})
endfunction()

# Stand-ins for libcuda and NVRTC, which the tests open by path from the build folder.
foreach(source IN LISTS fakes)
  get_filename_component(name ${source} NAME_WE)
  add_library(${name} MODULE ${source})
  target_link_libraries(${name} PRIVATE attnpress_options Threads::Threads)
endforeach()

# Two modules with a copy of the archive each.
foreach(name engine_one engine_two)
  add_library(${name} MODULE tests/engine.c)
  target_link_libraries(${name} PRIVATE attnpress_static attnpress_options)
endforeach()

foreach(source IN LISTS c_tests)
  get_filename_component(name ${source} NAME_WE)
  file(STRINGS ${source} uses_cmocka REGEX "include <cmocka.h>" LIMIT_COUNT 1)
  if(uses_cmocka AND NOT (CMOCKA_INCLUDE_DIR AND CMOCKA_LIBRARY))
    message(STATUS "${name} is not built: cmocka was not found (libcmocka-dev)")
    add_skipped_test(${name} "cmocka was not found (libcmocka-dev)")
    continue()
  endif()
  add_executable(${name} ${source})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_compile_options(${name} PRIVATE -UNDEBUG) # assert() is a check here
  target_compile_definitions(${name} PRIVATE ATTNPRESS_TESTS_DIR="${PROJECT_SOURCE_DIR}/tests")
  # With the internal headers and this library, a test reaches what is not exported.
  target_include_directories(${name} SYSTEM PRIVATE ${XXHASH_INCLUDE_DIR})
  target_link_libraries(${name} PRIVATE attnpress_reference attnpress_internal attnpress_options)
  if(uses_cmocka)
    target_include_directories(${name} SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
    target_link_libraries(${name} PRIVATE ${CMOCKA_LIBRARY})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_up_test(${name})
endforeach()

# It makes the library's allocations fail: what they call goes through the test.
if(TARGET test_allocations)
  foreach(function malloc calloc aligned_alloc realloc free strdup getcwd fdopendir pthread_create)
    target_link_options(test_allocations PRIVATE LINKER:--wrap=${function})
  endforeach()
endif()

# It holds these texts (.incbin), and they are not known to the build by including them.
set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/test_gpu_forward.c" PROPERTIES OBJECT_DEPENDS
  "${PROJECT_SOURCE_DIR}/tests/reference_attention.cu;${PROJECT_SOURCE_DIR}/tests/reference_attention.h")

foreach(source IN LISTS shell_tests)
  get_filename_component(name ${source} NAME_WE)
  add_test(NAME ${name} COMMAND sh ${source})
  set_up_test(${name})
endforeach()

# They build, each in a folder of its own, with all cores.
set_tests_properties(test_sanitizers test_fuzz PROPERTIES PROCESSORS ${cores})

# The Python tests are one label, so that `ctest -LE pytest` leaves them out where pytest runs by
# itself.
find_package(Python3 3.10 COMPONENTS Interpreter QUIET)
set(python_lacks "Python 3.10 or newer was not found")
if(Python3_FOUND)
  execute_process(COMMAND "${Python3_EXECUTABLE}" -c "import jinja2, numpy, pytest"
    RESULT_VARIABLE python_lacks ERROR_QUIET)
  if(python_lacks)
    set(python_lacks "pytest, NumPy or Jinja2 was not found for ${Python3_EXECUTABLE}")
  endif()
endif()
foreach(source IN LISTS python_tests)
  get_filename_component(name ${source} NAME_WE)
  if(NOT python_lacks)
    add_test(
      NAME pytest_${name}
      COMMAND Python3::Interpreter -m pytest -q ${source}
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
    set_up_test(pytest_${name})
  else()
    add_skipped_test(pytest_${name} "${python_lacks}")
  endif()
  set_tests_properties(pytest_${name} PROPERTIES LABELS pytest)
endforeach()

# The longest begin first, so that the others run beside them.
foreach(name pytest_test_generator pytest_test_bench pytest_test_torch_graphs pytest_test_render
    pytest_test_examples pytest_test_families test_cpu)
  set_tests_properties(${name} PROPERTIES COST 100)
endforeach()

# One at a time where there is a GPU: they measure, or take much of its memory.
foreach(name test_gpu_forward test_gpu_runtime test_gpu_softmax pytest_test_python pytest_test_softmax)
  set_tests_properties(${name} PROPERTIES RESOURCE_LOCK gpu)
endforeach()
